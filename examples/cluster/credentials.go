package main

import (
	"errors"
	"io/fs"
	"net"

	"github.com/planekit/planekit/client/kubeconfig"
)

// servingHosts returns the names of the API server beside those that every server has.
func servingHosts(address net.Addr, more []string) []string {
	var hosts []string
	if host, _, err := net.SplitHostPort(address.String()); err == nil {
		if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
			hosts = append(hosts, host)
		}
	}
	return append(hosts, more...)
}

// writeKubeconfig writes the administrator's kubeconfig, readable by its owner. What
// others have put into the file stays.
func writeKubeconfig(file string, config *kubeconfig.Config) error {
	theirs, err := kubeconfig.Load(file)
	switch {
	case err == nil:
		config = kubeconfig.Merge(config, theirs)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return config.Write(file)
}
