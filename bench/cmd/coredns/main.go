// Command coredns is stock CoreDNS with the plugins of a cluster's usual Corefile. It is a module of its
// own, because CoreDNS asks for other versions of what planekit's peers are built with.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	dnsserver.Directives = []string{"bind", "errors", "cache", "kubernetes", "forward"}
	coremain.Run()
}
