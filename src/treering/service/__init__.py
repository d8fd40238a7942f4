"""The server: one vault for many analysts and their programs, over HTTP.

`app` puts it together; `routes` has the endpoints; `access` keeps tokens and what each of them has used. The service
answers from the vault's public face alone: rows go to the vault as files that are not opened here.
"""
