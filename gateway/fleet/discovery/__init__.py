"""Where servers come from. Each finder hands the pool a whole list whenever it changes.

discovery        what all have in common
static           what the settings name, and a file that may change
polling          PollingDiscovery: looks them up in a directory again and again; a failure changes nothing
dns              the directory of a name in DNS
kubernetes       that of a cluster's pods: kubernetes_api asks, with the rights of a service_account
pod_list, pods   what the API's answer says, and the servers that follow from it
"""
