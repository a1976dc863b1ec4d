package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/tokenfile"
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

// adminToken returns the tokens of a file, after it has made one with a token for the administrator if
// there is none.
func adminToken(file string) (authn.Authenticator, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		var random [32]byte
		rand.Read(random[:]) // never fails (crypto/rand)
		data = fmt.Appendf(nil, "%s,%s,,%q\n", hex.EncodeToString(random[:]), credentials.Administrator, user.Masters)
		err = writeWhole(file, data)
	}
	if err != nil {
		return nil, err
	}
	tokens, err := tokenfile.Read(data)
	if err != nil {
		return nil, fmt.Errorf("tokens.csv in the data directory: %w", err)
	}
	return tokens, nil
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
