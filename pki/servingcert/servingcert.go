// Package servingcert serves certificates of an operator's beside the certificate that a server makes for
// itself. It is what kube-apiserver's --tls-cert-file, --tls-private-key-file and --tls-sni-cert-key do.
//
//	pair, err := servingcert.Open(servingcert.Files{Cert: "tls.crt", Key: "tls.key"})
//	set := servingcert.Set{Default: pair}
//	config := &tls.Config{GetCertificate: set.Choose(own)}
//
// # Model
//
// The files are followed while the certificates are in use: a handshake looks at them, at most every five
// seconds. Connections that are established stay as they are. Keys are ECDSA, RSA or Ed25519.
//
// A server has clients inside the cluster: pods and nodes. They trust the cluster's authority alone, and
// reach the server by the names and addresses of its own certificate, so these keep it. See [Set.Choose].
//
// # Failure
//
// Open fails without a valid certificate and its key. Later, files that are missing, incomplete, expired,
// or do not match leave the last certificate in use, which is reported once.
package servingcert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/planekit/planekit/pki"
)

// Set is the certificates of an operator. Its zero value has none.
type Set struct {
	// Default is served where no other certificate is. Nil is the server's own.
	Default *Pair
	// Named are served to clients that ask for their names. If several have a name, the first of them is.
	Named []*Pair
	// Inside are the addresses of the server at which pods and nodes reach it.
	Inside []netip.Addr
}

// Choose returns the certificate that a handshake gets, own being that of the server itself. It is for
// tls.Config.GetCertificate. A client that asks for a name gets the first of:
//
//   - own, if it has the name. localhost is excepted;
//   - the first of Named with the pattern or name, wildcards last, patterns before names in certificates;
//   - Default, or own if that alone is valid for the name.
//
// A client that connects to an address asks for none. It gets by the address at which the server
// accepted the connection the first of:
//
//   - the first of Named with the address as a pattern;
//   - own, if the address is one of Inside: a pod that used the address of the Service kubernetes arrives there too;
//   - Default, or own if that alone is valid for the address.
func (s *Set) Choose(own func() *tls.Certificate) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		mine := own()
		if name := strings.ToLower(strings.TrimSuffix(hello.ServerName, ".")); name != "" {
			return s.forName(name, mine), nil
		}
		return s.forAddress(localAddress(hello.Conn), mine), nil
	}
}

// localAddress returns the address at which a connection was accepted. It may be invalid.
func localAddress(conn net.Conn) netip.Addr {
	if conn == nil {
		return netip.Addr{}
	}
	address, _ := netip.ParseAddrPort(conn.LocalAddr().String())
	return address.Addr().WithZone("")
}

func (s *Set) forName(name string, own *tls.Certificate) *tls.Certificate {
	if keeps(own.Leaf, name) {
		return own
	}
	if p := s.named(name); p != nil {
		return p.Certificate()
	}
	return s.fallback(name, own)
}

func (s *Set) forAddress(address netip.Addr, own *tls.Certificate) *tls.Certificate {
	for _, p := range s.Named {
		if slices.Contains(p.ips, address) {
			return p.Certificate()
		}
	}
	if slices.Contains(s.Inside, address) {
		return own
	}
	return s.fallback(address.String(), own)
}

// keeps reports whether clients that ask for a name get the server's own certificate, whatever others have
// the name: a client inside the cluster may use it. None uses localhost.
func keeps(own *x509.Certificate, name string) bool {
	return name != "localhost" && slices.Contains(own.DNSNames, name)
}

// named returns the certificate for a name; nil if there is none.
func (s *Set) named(name string) *Pair {
	_, parent, _ := strings.Cut(name, ".")
	wildcard := "*"
	if parent != "" {
		wildcard = "*." + parent
	}
	for _, want := range []string{name, wildcard} {
		for _, explicit := range []bool{true, false} {
			for _, p := range s.Named {
				have := p.domains
				if !explicit && len(p.files.Patterns) == 0 {
					have = names(p.value.Current().Leaf)
				}
				if slices.Contains(have, want) {
					return p
				}
			}
		}
	}
	return nil
}

// fallback returns the certificate for a host that no other rule decides.
func (s *Set) fallback(host string, own *tls.Certificate) *tls.Certificate {
	if s.Default == nil {
		return own
	}
	certificate := s.Default.Certificate()
	if certificate.Leaf.VerifyHostname(host) != nil && own.Leaf.VerifyHostname(host) == nil {
		return own
	}
	return certificate
}

// all returns every certificate of the set.
func (s *Set) all() []*Pair {
	if s.Default == nil {
		return s.Named
	}
	return append([]*Pair{s.Default}, s.Named...)
}

// ReportTo sets what receives reports about the files.
func (s *Set) ReportTo(r pki.Report) {
	for _, p := range s.all() {
		p.ReportTo(r)
	}
}

// Check reports patterns that would take a name or an address away from the clients inside the cluster,
// which trust only the authority of own.
func (s *Set) Check(own *x509.Certificate) error {
	for _, p := range s.Named {
		for _, name := range p.domains {
			if keeps(own, name) {
				return fmt.Errorf("%s: the pattern %s: clients inside the cluster use this name and trust only the cluster's authority, whose certificate keeps it", p.files.Cert, name)
			}
		}
		for _, ip := range p.ips {
			if slices.Contains(s.Inside, ip) {
				return fmt.Errorf("%s: the pattern %s: pods and nodes reach the server at this address and trust only the cluster's authority, whose certificate keeps it", p.files.Cert, ip)
			}
		}
	}
	return nil
}

// Anchors returns the certificates, in PEM, by which clients verify those of the set that authority has not
// signed: the authorities in a file, or, if it has none, the certificate itself.
func (s *Set) Anchors(authority *x509.CertPool) []byte {
	var out bytes.Buffer
	var seen [][]byte
	for _, p := range s.all() {
		for _, der := range anchors(p.Certificate(), authority) {
			if slices.ContainsFunc(seen, func(have []byte) bool { return bytes.Equal(have, der) }) {
				continue
			}
			seen = append(seen, der)
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: der}) // a buffer takes all
		}
	}
	return out.Bytes()
}

func anchors(c *tls.Certificate, authority *x509.CertPool) [][]byte {
	between := x509.NewCertPool()
	for _, der := range c.Certificate[1:] {
		if above, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(above)
		}
	}
	if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: authority, Intermediates: between}); err == nil {
		return nil
	}
	if len(c.Certificate) > 1 {
		return c.Certificate[1:]
	}
	return c.Certificate
}
