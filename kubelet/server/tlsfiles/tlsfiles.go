// Package tlsfiles makes the TLS settings of a server from files, and follows the files: its serving
// certificate and key, and the authorities of its clients.
//
//	files, err := tlsfiles.New(tlsfiles.Config{
//		CertFile: "/etc/kubelet/tls.crt", KeyFile: "/etc/kubelet/tls.key", ClientCAFile: "/etc/kubelet/ca.crt",
//	})
//	if err != nil { ... }
//	serve, err := server.New(server.Config{TLS: files.TLS(), ...})
//	go files.Run(ctx)
//
// # Model
//
// New connections use what the files had when they were last read; open ones stay. The server verifies
// clients with [Files.Authorities], at every request, so that an authority that is removed from its
// file ends access on open connections.
//
// # Failure
//
// New fails without valid files. Later, if files are missing, incomplete, or do not match, the earlier
// ones stay in use. The error is logged when it appears or changes, and the files are read again after
// [Config.Every]. Replace files by a rename. Pipes and devices are not opened.
package tlsfiles

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/internal/certfile"
	"github.com/planekit/planekit/internal/lastvalid"
)

// DefaultEvery is the default of [Config.Every].
const DefaultEvery = 5 * time.Second

// Config has the files. CertFile and KeyFile must be set.
type Config struct {
	// CertFile has the serving certificate and its chain, and KeyFile its key, in PEM.
	CertFile, KeyFile string
	// ClientCAFile has the authorities of client certificates in PEM. Empty means that clients are not
	// asked for a certificate.
	ClientCAFile string
	// TLS has further settings, such as cipher suites. Versions before TLS 1.2 are not used. It may be
	// nil.
	TLS *tls.Config
	// Every is the time between two looks at the files. Zero means DefaultEvery.
	Every time.Duration
	// Log is silent when zero.
	Log logr.Logger
}

// Files are the current contents of the files. They are safe for concurrent use.
type Files struct {
	config      Config
	pair        *lastvalid.Value[*tls.Certificate]
	authorities *lastvalid.Value[*x509.CertPool] // nil without ClientCAFile
	// current is the configuration of new connections.
	current atomic.Pointer[tls.Config]

	mu   sync.Mutex
	said map[string]string // the last error about each kind of files; guarded by mu
}

// New reads the files for the first time.
func New(c Config) (*Files, error) {
	switch {
	case c.CertFile == "" || c.KeyFile == "":
		return nil, errors.New("tlsfiles: CertFile or KeyFile is missing")
	case c.Every < 0:
		return nil, fmt.Errorf("tlsfiles: Every %v is negative", c.Every)
	case c.Every == 0:
		c.Every = DefaultEvery
	}
	f := &Files{config: c, said: map[string]string{}}
	var err error
	if f.pair, err = certfile.Pair(c.CertFile, c.KeyFile); err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	if c.ClientCAFile != "" {
		if f.authorities, err = certfile.Authorities(c.ClientCAFile); err != nil {
			return nil, fmt.Errorf("client authorities: %w", err)
		}
	}
	f.current.Store(f.compose())
	return f, nil
}

// compose returns the configuration of new connections. It stays the same until a file changes, so
// that sessions can be resumed.
func (f *Files) compose() *tls.Config {
	t := &tls.Config{}
	if f.config.TLS != nil {
		t = f.config.TLS.Clone()
	}
	t.Certificates, t.GetCertificate, t.GetConfigForClient = []tls.Certificate{*f.pair.Current()}, nil, nil
	t.MinVersion = max(t.MinVersion, tls.VersionTLS12)
	if len(t.NextProtos) == 0 {
		t.NextProtos = []string{"http/1.1"}
		if speaksHTTP2(t) {
			t.NextProtos = []string{"h2", "http/1.1"}
		}
	}
	if f.authorities != nil {
		t.ClientAuth, t.ClientCAs = max(t.ClientAuth, tls.RequestClientCert), f.authorities.Current()
	}
	return t
}

// speaksHTTP2 reports whether the cipher suites have one that HTTP/2 requires (RFC 9113, section 9.2.2).
// net/http refuses to serve HTTP/2 without.
func speaksHTTP2(t *tls.Config) bool {
	return t.CipherSuites == nil || t.MinVersion >= tls.VersionTLS13 ||
		slices.Contains(t.CipherSuites, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256) ||
		slices.Contains(t.CipherSuites, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)
}

// TLS returns settings for a server, whose connections use the current files.
func (f *Files) TLS() *tls.Config {
	t := f.compose()
	// net/http looks at the cipher suites, but connections have those of current.
	t.Certificates, t.CipherSuites = nil, nil
	t.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.Certificate(), nil }
	t.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.current.Load(), nil }
	return t
}

// Certificate returns the current serving certificate.
func (f *Files) Certificate() *tls.Certificate { return f.pair.Current() }

// Authorities returns the current authorities of client certificates, nil without ClientCAFile.
func (f *Files) Authorities() *x509.CertPool {
	if f.authorities == nil {
		return nil
	}
	return f.authorities.Current()
}

// Reload reads the files now, for programs that are notified of changes. It returns what is wrong with
// them.
func (f *Files) Reload() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed, err := f.pair.Refresh()
	f.report("serving certificate", changed, err)
	if f.authorities != nil {
		other, wrong := f.authorities.Refresh()
		f.report("client authorities", other, wrong)
		changed, err = changed || other, errors.Join(err, wrong)
	}
	if changed {
		f.current.Store(f.compose())
	}
	return err
}

// report logs a change, and an error that is new.
func (f *Files) report(what string, changed bool, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case changed:
		f.config.Log.Info("read changed files", "files", what)
	case err != nil && text != f.said[what]:
		f.config.Log.Error(err, "changed files cannot be used; the earlier ones stay", "files", what)
	}
	f.said[what] = text
}

// Run follows the files until ctx is done, and then returns nil.
func (f *Files) Run(ctx context.Context) error {
	ticker := time.NewTicker(f.config.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			_ = f.Reload() // it is logged
		}
	}
}
