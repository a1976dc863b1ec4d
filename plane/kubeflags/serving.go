package kubeflags

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/planekit/planekit/pki/servingcert"
)

// Serving is the flags of the certificates that an API server serves: --tls-cert-file,
// --tls-private-key-file and --tls-sni-cert-key, which are kube-apiserver's, and --tls-san, which is
// k3s's. They are not among those of Add: a program with a kubelet has other uses for the first two.
type Serving struct {
	cert, key string
	named     []servingcert.Files
	sans      []string
}

// AddServing adds the flags to a set.
func AddServing(flags *pflag.FlagSet) *Serving {
	s := &Serving{}
	flags.StringVar(&s.cert, "tls-cert-file", "", "certificate of the server with its chain, for clients outside the cluster; read again when it changes")
	flags.StringVar(&s.key, "tls-private-key-file", "", "key of --tls-cert-file")
	flags.Var((*namedFiles)(&s.named), "tls-sni-cert-key", "certificate and key that are served for some names: certfile,keyfile or certfile,keyfile:pattern,... with domain names, *.domains and addresses (default: the names in the certificate); may be repeated, the first one with a name is served")
	flags.StringSliceVar(&s.sans, "tls-san", nil, "further name or address in the server's own certificate, such as that of a load balancer; may be repeated")
	return s
}

// namedFiles is the value of --tls-sni-cert-key.
type namedFiles []servingcert.Files

func (n *namedFiles) Set(text string) error {
	files, err := servingcert.Parse(text)
	if err == nil {
		*n = append(*n, files)
	}
	return err
}

func (*namedFiles) Type() string { return "certKey" }

// String returns the default, none.
func (*namedFiles) String() string { return "" }

// Check reports values that are not valid, and makes paths absolute.
func (s *Serving) Check() error {
	if (s.cert == "") != (s.key == "") {
		return errors.New("--tls-cert-file and --tls-private-key-file go together")
	}
	for _, san := range s.sans {
		if err := servingcert.CheckName(san); err != nil {
			return fmt.Errorf("--tls-san: %w", err)
		}
	}
	paths := []*string{&s.cert, &s.key}
	for i := range s.named {
		paths = append(paths, &s.named[i].Cert, &s.named[i].Key)
	}
	for _, path := range paths {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	return nil
}

// Files returns the values of --tls-cert-file and --tls-private-key-file.
func (s *Serving) Files() (cert, key string) { return s.cert, s.key }

// Names returns the further names and addresses of the server's own certificate.
func (s *Serving) Names() []string {
	var names []string
	for _, san := range s.sans {
		if ip, err := netip.ParseAddr(san); err == nil {
			san = ip.String()
		}
		names = append(names, strings.ToLower(san))
	}
	return names
}

// Open reads the certificates. Errors name the flag and the file.
func (s *Serving) Open() (servingcert.Set, error) {
	return servingcert.OpenFlags(servingcert.Files{Cert: s.cert, Key: s.key}, s.named)
}
