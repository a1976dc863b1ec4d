package servingcert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/planekit/planekit/internal/certfile"
	"github.com/planekit/planekit/internal/lastvalid"
	"github.com/planekit/planekit/pki"
)

// checkEvery is the time between two looks at the files, as that of [pki.Live].
const checkEvery = 5 * time.Second

// Files names a certificate with its chain, and its key, in PEM.
type Files struct {
	Cert, Key string
	// Patterns are the names that the certificate is served for: domain names, whose first label may be
	// *, and IP addresses. Without, they are the names in the certificate, but not its addresses.
	Patterns []string
}

// Parse reads the value of a flag: "certfile,keyfile" or "certfile,keyfile:pattern,pattern".
func Parse(text string) (Files, error) {
	paths, patterns, some := strings.Cut(text, ":")
	cert, key, ok := strings.Cut(paths, ",")
	f := Files{Cert: strings.TrimSpace(cert), Key: strings.TrimSpace(key)}
	if !ok || f.Cert == "" || f.Key == "" || strings.Contains(f.Key, ",") {
		return Files{}, fmt.Errorf("%q must have the form certfile,keyfile or certfile,keyfile:pattern,pattern", text)
	}
	if !some {
		return f, nil
	}
	for pattern := range strings.SplitSeq(patterns, ",") {
		f.Patterns = append(f.Patterns, strings.TrimSpace(pattern))
	}
	return f, f.check()
}

// OpenFlags opens the files that kube-apiserver's flags name: those of --tls-cert-file and
// --tls-private-key-file, which may be empty, and those of each --tls-sni-cert-key. Errors name the flags.
func OpenFlags(main Files, named []Files) (Set, error) {
	var set Set
	if main.Cert != "" || main.Key != "" {
		pair, err := Open(main)
		if err != nil {
			return Set{}, fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", err)
		}
		set.Default = pair
	}
	for _, files := range named {
		pair, err := Open(files)
		if err != nil {
			return Set{}, fmt.Errorf("--tls-sni-cert-key: %w", err)
		}
		set.Named = append(set.Named, pair)
	}
	return set, nil
}

// CheckName reports a text that is neither a domain name nor an IP address.
func CheckName(text string) error {
	if _, err := netip.ParseAddr(text); err != nil && (!isDomain(text) || text == "*") {
		return fmt.Errorf("%q is neither a domain name nor an IP address", text)
	}
	return nil
}

// check reports patterns that are neither names nor addresses.
func (f *Files) check() error {
	for _, pattern := range f.Patterns {
		if _, err := netip.ParseAddr(pattern); err != nil && !isDomain(pattern) {
			return fmt.Errorf("the pattern %q is neither a domain name, whose first label may be *, nor an IP address", pattern)
		}
	}
	return nil
}

// isDomain reports whether text is a domain name, whose first label may be *.
func isDomain(text string) bool {
	text = strings.TrimPrefix(text, "*.")
	if text == "*" {
		return true
	}
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			return false
		}
	}
	return true
}

// A Pair is a certificate in use, which follows its files. It is safe for concurrent use.
type Pair struct {
	files   Files
	value   *lastvalid.Value[*tls.Certificate]
	domains []string // of the patterns, in lower case
	ips     []netip.Addr

	mu      sync.Mutex
	checked time.Time  // guarded by mu
	said    string     // the last error, or empty; guarded by mu
	report  pki.Report // may be nil; guarded by mu
}

// Open reads a certificate, which must be valid. Errors name the files.
func Open(f Files) (*Pair, error) {
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("servingcert: Cert or Key is missing")
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Cert, err)
	}
	value, err := certfile.ValidPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	p := &Pair{files: f, value: value, checked: time.Now()}
	for _, pattern := range f.Patterns {
		if ip, err := netip.ParseAddr(pattern); err == nil {
			p.ips = append(p.ips, ip.Unmap())
		} else {
			p.domains = append(p.domains, strings.ToLower(pattern))
		}
	}
	return p, nil
}

// ReportTo sets what receives reports about the files.
func (p *Pair) ReportTo(r pki.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report = r
}

// Certificate returns the current certificate. It looks at the files, at most every five seconds.
func (p *Pair) Certificate() *tls.Certificate {
	// One caller looks, the others go on: a slow disk delays one handshake.
	if p.mu.TryLock() {
		defer p.mu.Unlock()
		if time.Since(p.checked) >= checkEvery {
			p.checked = time.Now()
			p.refresh()
		}
	}
	return p.value.Current()
}

// refresh reads the files and reports what has changed. mu is held.
func (p *Pair) refresh() {
	changed, err := p.value.Refresh()
	text := ""
	if err != nil {
		text = err.Error()
	}
	again := text == p.said
	p.said = text
	if p.report != nil && (changed || err != nil && !again) {
		p.report(p.files.Cert, p.value.Current().Leaf.NotAfter, err)
	}
}

// names returns the names in a certificate that a client can request: the common name, if it is a domain
// name, and the alternative names. Addresses are not among them: a client that connects to an address
// does not say so, and the server may see another one.
func names(leaf *x509.Certificate) []string {
	var all []string
	common := leaf.Subject.CommonName
	if _, err := netip.ParseAddr(common); err != nil && isDomain(common) {
		all = append(all, strings.ToLower(common))
	}
	for _, name := range leaf.DNSNames {
		all = append(all, strings.ToLower(name))
	}
	return all
}
