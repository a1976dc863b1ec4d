// Package aggregate lets an API server pass requests for some API groups on to
// other servers, as APIService objects say
// (https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/).
//
//	aggregator, err := aggregate.New(aggregate.Config{
//		Services:    services,            // what there is, by group version
//		Resolve:     resolve,             // where a service is
//		Certificate: proxyClient.Current, // what it knows this server by
//	})
//	config.Aggregator = aggregator
//
// A request is authenticated and authorized here. The other server learns who
// asks from the headers X-Remote-User, X-Remote-Uid, X-Remote-Group and
// X-Remote-Extra-, which it must believe from holders of the certificate only,
// and decides itself what they may do. What the client sent under these names is
// removed, as are its credentials.
//
// The answer is passed on as it comes, watches and upgraded connections too. A
// redirect goes to the client, and is not followed. Where the other server cannot
// be found or reached, or its certificate does not fit, the client gets 503; other
// groups are not affected.
//
// The services are asked for with every request, so a change counts at once;
// connections to a service are kept for as long as its TLS configuration stays.
//
// It leaves out the health of services (their Available condition), and their
// OpenAPI documents, which the other servers have.
package aggregate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// A Service serves one version of an API group.
type Service struct {
	schema.GroupVersion
	// Namespace, Name and Port are those of the Service object that leads there.
	Namespace, Name string
	Port            int
	// CABundle are the PEM certificates that the server's must be signed by; none
	// are those of the host.
	CABundle []byte
	// InsecureSkipTLSVerify believes any server.
	InsecureSkipTLSVerify bool
	// GroupPriority and VersionPriority order discovery, the highest first.
	GroupPriority, VersionPriority int
}

// Config says what is passed on, and how.
type Config struct {
	// Services yields those that there are. It is called often and must be fast.
	Services func() iter.Seq[Service]
	// Resolve returns where a service is, such as https://10.0.0.7:8443.
	Resolve func(context.Context, Service) (*url.URL, error)
	// Certificate returns the client certificate that others know this server by;
	// it is asked for with each connection. Nil presents none.
	Certificate func() (*tls.Certificate, error)
	// Log is silent when zero.
	Log logr.Logger
}

// Aggregator is an apiserver.Aggregator.
type Aggregator struct {
	config Config

	mu sync.Mutex
	// Guarded by mu: connections to services, by the service and its TLS
	// configuration.
	transports map[identity]*http.Transport
}

// identity is what a service's connections depend on.
type identity struct {
	schema.GroupVersion
	namespace, name string
	insecure        bool
	// upgrade says that requests may turn into something else, which HTTP/2 has no
	// way for.
	upgrade bool
	ca      [sha256.Size]byte
}

// New checks c.
func New(c Config) (*Aggregator, error) {
	if c.Services == nil || c.Resolve == nil {
		return nil, errors.New("aggregate: Services and Resolve must be set")
	}
	return &Aggregator{config: c, transports: map[identity]*http.Transport{}}, nil
}

// GroupVersions are those of the services, by priority.
func (a *Aggregator) GroupVersions() []schema.GroupVersion {
	all := slices.Collect(a.config.Services())
	slices.SortFunc(all, func(x, y Service) int {
		return cmp.Or(
			cmp.Compare(y.GroupPriority, x.GroupPriority), cmp.Compare(x.Group, y.Group),
			cmp.Compare(y.VersionPriority, x.VersionPriority), version.CompareKubeAwareVersionStrings(y.Version, x.Version),
		)
	})
	out := make([]schema.GroupVersion, len(all))
	for i, s := range all {
		out[i] = s.GroupVersion
	}
	return out
}

// Handler returns a proxy to the service of gv, nil if there is none.
func (a *Aggregator) Handler(gv schema.GroupVersion) http.Handler {
	for s := range a.config.Services() {
		if s.GroupVersion == gv {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, s) })
		}
	}
	return nil
}

// Close ends idle connections.
func (a *Aggregator) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, t := range a.transports {
		t.CloseIdleConnections()
		delete(a.transports, id)
	}
}

// transport returns the connections to s, after it has given up those of
// services which have changed or gone.
func (a *Aggregator) transport(s Service, upgrade bool) (*http.Transport, error) {
	id := identify(s, upgrade)
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.transports[id]; t != nil {
		return t, nil
	}
	current := map[identity]bool{}
	for other := range a.config.Services() {
		current[identify(other, false)], current[identify(other, true)] = true, true
	}
	for old, t := range a.transports {
		if !current[old] {
			t.CloseIdleConnections()
			delete(a.transports, old)
		}
	}
	config, err := a.tls(s)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: !upgrade, MaxIdleConnsPerHost: 32, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second}
	a.transports[id] = t
	return t, nil
}

func identify(s Service, upgrade bool) identity {
	return identity{s.GroupVersion, s.Namespace, s.Name, s.InsecureSkipTLSVerify, upgrade, sha256.Sum256(s.CABundle)}
}

func (a *Aggregator) tls(s Service) (*tls.Config, error) {
	config := &tls.Config{ServerName: s.Name + "." + s.Namespace + ".svc", InsecureSkipVerify: s.InsecureSkipTLSVerify, MinVersion: tls.VersionTLS12}
	if len(s.CABundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(s.CABundle) {
			return nil, fmt.Errorf("service %s/%s: no certificate in the CA bundle", s.Namespace, s.Name)
		}
	}
	if a.config.Certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return a.config.Certificate() }
	}
	return config, nil
}
