package kubeletconfig

import (
	"crypto/tls"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Part names fields on which not the kubelet acts but the program that runs it.
type Part int

const (
	// StaticPods are staticPodPath, staticPodURL, staticPodURLHeader, fileCheckFrequency and
	// httpCheckFrequency.
	StaticPods Part = iota + 1
	// TLS are tlsMinVersion, tlsCipherSuites and tlsCurvePreferences.
	TLS
	// Debugging is enableDebuggingHandlers.
	Debugging
	// Serving are enableServer, address, port, tlsCertFile, tlsPrivateKeyFile, authentication and
	// authorization.
	Serving
	// ReadOnly is readOnlyPort.
	ReadOnly
	// Process is maxOpenFiles.
	Process
)

// Program has the settings of the file for the program that runs the kubelet, with Kubernetes'
// defaults for those that the file does not have.
type Program struct {
	// StaticPodPath is a directory of manifests or one manifest, and StaticPodURL their address, which
	// gets StaticPodHeader. Empty means none.
	StaticPodPath, StaticPodURL string
	StaticPodHeader             http.Header
	// FileCheck and URLCheck are the times between two reads of them.
	FileCheck, URLCheck time.Duration

	// MinVersion is the oldest version of TLS that the server speaks. Empty CipherSuites and
	// CurvePreferences mean those of crypto/tls.
	MinVersion       uint16
	CipherSuites     []uint16
	CurvePreferences []tls.CurveID

	// DebuggingHandlers is whether the server has logs, exec, attach and port-forward.
	DebuggingHandlers bool

	// EnableServer is whether there is a server, at Address and Port.
	EnableServer bool
	Address      string
	Port         int32
	// CertFile and KeyFile have the serving certificate, and ClientCAFile the authorities of clients.
	CertFile, KeyFile, ClientCAFile string
	// Anonymous lets in users without credentials. TokenReview asks the API server whose a bearer token is.
	Anonymous, TokenReview bool
	// AuthorizationMode is AlwaysAllow, or Webhook, which asks the API server.
	AuthorizationMode string

	// ReadOnlyPort is the port at Address of a server without TLS and credentials. Zero means none.
	ReadOnlyPort int32
	// MaxOpenFiles bounds the files that the process has open.
	MaxOpenFiles int64
}

// ApplyTLS sets the versions, cipher suites and curves of t.
func (p *Program) ApplyTLS(t *tls.Config) {
	t.MinVersion, t.CipherSuites, t.CurvePreferences = p.MinVersion, p.CipherSuites, p.CurvePreferences
}

// Program returns the settings for the program that runs the kubelet. As in Kubernetes, relative paths
// are relative to folder, which is that of the file.
func (f *File) Program(folder string) Program {
	p := f.program
	for _, path := range []*string{&p.StaticPodPath, &p.CertFile, &p.KeyFile, &p.ClientCAFile} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(folder, *path)
		}
	}
	p.StaticPodHeader = p.StaticPodHeader.Clone()
	return p
}

func defaultProgram() Program {
	return Program{
		FileCheck: 20 * time.Second, URLCheck: 20 * time.Second, MinVersion: tls.VersionTLS12,
		DebuggingHandlers: true, EnableServer: true, Address: "0.0.0.0", Port: 10250, TokenReview: true, AuthorizationMode: "Webhook",
		MaxOpenFiles: 1_000_000,
	}
}

// takes returns the row of a field of a part. why says who acts on it if the program does not, and
// standard is Kubernetes' default.
func takes[T any](part Part, name string, standard T, why string, take func(*Program, T) error) row {
	r := idle(name, standard, why)
	r.part = part
	r.take = func(p *Program, value any) error { return take(p, value.(T)) }
	return r
}

// programRows are the fields of all parts.
func programRows() []row {
	return slices.Concat(staticRows(), tlsRows(), servingRows())
}

func staticRows() []row {
	period := func(field func(*Program) *time.Duration) func(*Program, duration) error {
		return func(p *Program, v duration) error {
			if v.Duration < 0 {
				return fmt.Errorf("%v must not be negative", v.Duration)
			}
			if v.Duration > 0 {
				*field(p) = v.Duration
			}
			return nil
		}
	}
	return []row{
		takes(StaticPods, "staticPodPath", "", noStaticPods, func(p *Program, v string) error { p.StaticPodPath = v; return nil }),
		takes(StaticPods, "staticPodURL", "", noStaticPods, func(p *Program, v string) error { p.StaticPodURL = v; return nil }),
		takes(StaticPods, "staticPodURLHeader", map[string][]string(nil), noStaticPods, func(p *Program, v map[string][]string) error {
			for name, values := range v {
				for _, value := range values {
					p.StaticPodHeader.Add(name, value)
				}
			}
			return nil
		}),
		takes(StaticPods, "fileCheckFrequency", of(20*time.Second), noStaticPods, period(func(p *Program) *time.Duration { return &p.FileCheck })),
		takes(StaticPods, "httpCheckFrequency", of(20*time.Second), noStaticPods, period(func(p *Program) *time.Duration { return &p.URLCheck })),
	}
}

// versions are the names of the versions of TLS.
var versions = map[string]uint16{
	"": tls.VersionTLS12, "VersionTLS10": tls.VersionTLS10, "VersionTLS11": tls.VersionTLS11,
	"VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13,
}

func tlsRows() []row {
	return []row{
		takes(TLS, "tlsMinVersion", "", ofServer, func(p *Program, v string) error {
			version, ok := versions[v]
			if !ok {
				return fmt.Errorf("unknown tls version %q", v)
			}
			p.MinVersion = version
			return nil
		}),
		takes(TLS, "tlsCipherSuites", []string(nil), ofServer, func(p *Program, names []string) error {
			for _, name := range names {
				suite := cipherSuite(name)
				if suite == nil {
					return fmt.Errorf("cipher suite %s is not supported or doesn't exist", name)
				}
				p.CipherSuites = append(p.CipherSuites, suite.ID)
			}
			return nil
		}),
		takes(TLS, "tlsCurvePreferences", []int32(nil), ofServer, func(p *Program, ids []int32) error {
			for _, id := range ids {
				curve := tls.CurveID(id)
				switch {
				case id <= 0 || id > math.MaxUint16:
					return fmt.Errorf("curve preference %d is out of range (must be 1-%d)", id, math.MaxUint16)
				case slices.Contains(p.CurvePreferences, curve):
					return fmt.Errorf("duplicate curve preference %d", id)
				case strings.HasPrefix(curve.String(), "CurveID("):
					return fmt.Errorf("curve preference %d is not supported by the current Go version", id)
				}
				p.CurvePreferences = append(p.CurvePreferences, curve)
			}
			return nil
		}),
	}
}

// cipherSuite returns a cipher suite by its name, or nil.
func cipherSuite(name string) *tls.CipherSuite {
	if strings.HasSuffix(name, "_WITH_CHACHA20_POLY1305") {
		name += "_SHA256" // an earlier name
	}
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if suite.Name == name {
			return suite
		}
	}
	return nil
}

func servingRows() []row {
	yes, no := true, false
	var users authentication
	users.Webhook.Enabled, users.Webhook.CacheTTL, users.Anonymous.Enabled = &yes, of(2*time.Minute), &no
	rights := authorization{Mode: "Webhook"}
	rights.Webhook.CacheAuthorizedTTL, rights.Webhook.CacheUnauthorizedTTL = of(5*time.Minute), of(30*time.Second)
	return []row{
		takes(Debugging, "enableDebuggingHandlers", true, ofServer, func(p *Program, v bool) error { p.DebuggingHandlers = v; return nil }),
		takes(Serving, "enableServer", true, ofServer, func(p *Program, v bool) error { p.EnableServer = v; return nil }),
		takes(Serving, "address", "0.0.0.0", ofServer, func(p *Program, v string) error {
			if v != "" {
				p.Address = v
			}
			return nil
		}),
		takes(Serving, "port", int32(10250), ofServer, func(p *Program, v int32) error {
			if v < 0 || v > math.MaxUint16 {
				return fmt.Errorf("port (--port) %d must be between 1 and 65535, inclusive", v)
			}
			if v != 0 {
				p.Port = v
			}
			return nil
		}),
		takes(ReadOnly, "readOnlyPort", int32(0), ofServer, func(p *Program, v int32) error {
			if v < 0 || v > math.MaxUint16 {
				return fmt.Errorf("readOnlyPort (--read-only-port) %d must be between 0 and 65535, inclusive", v)
			}
			p.ReadOnlyPort = v
			return nil
		}),
		takes(Process, "maxOpenFiles", int64(1_000_000), ofHost, func(p *Program, v int64) error {
			switch {
			case v < 0:
				return fmt.Errorf("maxOpenFiles (--max-open-files) %d must not be a negative number", v)
			case v > 0:
				p.MaxOpenFiles = v
			}
			return nil
		}),
		takes(Serving, "tlsCertFile", "", ofServer, func(p *Program, v string) error { p.CertFile = v; return nil }),
		takes(Serving, "tlsPrivateKeyFile", "", ofServer, func(p *Program, v string) error { p.KeyFile = v; return nil }),
		takes(Serving, "authentication", users, ofServer, func(p *Program, v authentication) error {
			p.ClientCAFile = v.X509.ClientCAFile
			p.Anonymous = v.Anonymous.Enabled != nil && *v.Anonymous.Enabled
			p.TokenReview = v.Webhook.Enabled == nil || *v.Webhook.Enabled
			return nil
		}),
		takes(Serving, "authorization", rights, ofServer, func(p *Program, v authorization) error {
			switch v.Mode {
			case "":
			case "AlwaysAllow", "Webhook":
				p.AuthorizationMode = v.Mode
			default:
				return fmt.Errorf("unknown authorization mode %s", v.Mode)
			}
			return nil
		}),
	}
}

// cautions returns warnings about settings that are insecure or without an effect although the program
// acts on them.
func (p *Program) cautions() []warning {
	var list []warning
	caution := func(part Part, format string, args ...any) {
		list = append(list, warning{part, true, fmt.Sprintf(format, args...)})
	}
	if p.MinVersion < tls.VersionTLS12 {
		caution(TLS, "tlsMinVersion has no effect: the kubelet's server speaks TLS 1.2 and newer")
	}
	if p.MinVersion == tls.VersionTLS13 && len(p.CipherSuites) > 0 {
		caution(TLS, "tlsCipherSuites has no effect: the cipher suites of TLS 1.3 are not configurable")
	}
	for _, suite := range tls.InsecureCipherSuites() {
		if slices.Contains(p.CipherSuites, suite.ID) {
			caution(TLS, "tlsCipherSuites has the insecure cipher suite %s", suite.Name)
		}
	}
	return list
}
