package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/plane/credentials"
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

// adminToken reads the token file, or makes one with a token for the
// administrator.
func adminToken(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	var random [32]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	line := fmt.Sprintf("%s,%s,,%q\n", hex.EncodeToString(random[:]), credentials.Administrator, user.Masters)
	return []byte(line), os.WriteFile(file, []byte(line), 0o600)
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
