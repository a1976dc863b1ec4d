// Command etcd is the stock etcd server, which the stock kube-apiserver needs.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
