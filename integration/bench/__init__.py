"""The benchmark: a farm over TLS with fsync beside etcd, same machine, same disk, same load (`make bench`)."""
