// Package aggregate lets an API server proxy requests for some API groups to other servers, which
// APIService objects name
// (https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/).
//
//	aggregator, err := aggregate.New(aggregate.Config{
//		APIServices: apiServices, Services: services, EndpointSlices: slices, // caches
//		Endpoints:   slicesByService,                                         // an index of slices
//		Status:      typed.APIServices(client),                               // writes conditions
//		Certificate: proxyClient.Current,                                     // identifies this server
//	})
//	config.Aggregator = aggregator
//	go aggregator.Run(ctx)
//
// A request is authenticated and authorized here. The other server learns the user from the headers
// X-Remote-User, X-Remote-Uid, X-Remote-Group and X-Remote-Extra-, which it must accept only from
// holders of the certificate (see authn/requestheader), and makes its own decision. Headers of these
// names from the client are removed, as are its credentials.
//
// The response is proxied as it arrives, including watches and upgraded connections. A redirect goes
// to the client and is not followed.
//
// Run asks every other server for its discovery document, every 30 seconds and when its APIService,
// service or endpoints change. It maintains the condition Available of the APIService, with the
// reasons of kube-aggregator. Requests for an unavailable server get 503; other groups are not
// affected. The condition is read from a cache, so a change takes effect a moment after it was
// written. Nothing is proxied before Run has read the caches, which closes Ready.
//
// The core group cannot be proxied.
package aggregate

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/kinds/apiregistration"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ByService is the key function of an index of slices by their service's
// namespace/name.
func ByService(s *discoveryv1.EndpointSlice) []string {
	if name := s.Labels[discoveryv1.LabelServiceName]; name != "" {
		return []string{s.Namespace + "/" + name}
	}
	return nil
}

// StatusUpdater replaces the status of an APIService, guarded by its resource
// version.
type StatusUpdater interface {
	UpdateStatus(context.Context, *apiregistration.APIService) (*apiregistration.APIService, error)
}

// Config configures an Aggregator. APIServices, Services, EndpointSlices, Endpoints and Status are
// required.
type Config struct {
	APIServices    localcache.ReadSubscriber[*apiregistration.APIService]
	Services       localcache.ReadSubscriber[*corev1.Service]
	EndpointSlices localcache.ReadSubscriber[*discoveryv1.EndpointSlice]
	// Endpoints is an index of EndpointSlices by [ByService].
	Endpoints localcache.Index[string, *discoveryv1.EndpointSlice]
	// Status writes conditions.
	Status StatusUpdater
	// Resolver finds the address of a service. Nil means ByEndpoints, which needs no network of
	// services.
	Resolver Resolver
	// Certificate returns the client certificate that others know this server by;
	// it is asked for with each connection. Nil presents none.
	Certificate func() (*tls.Certificate, error)
	// Log is silent when zero.
	Log logr.Logger
}

// Aggregator is an apiserver.Aggregator. Its methods are safe for concurrent use.
type Aggregator struct {
	config Config
	table  atomic.Pointer[table]
	ready  chan struct{}

	mu sync.Mutex
	// Guarded by mu: connections to services, by the service and its TLS
	// configuration; closed says that there will be no more.
	transports map[identity]*http.Transport
	closed     bool
	// Guarded by mu: what other servers have said of themselves, and the probes that
	// ask them, by the name of the APIService.
	said map[string]answer
	// Guarded by mu: how often, by reason, each APIService there is became unavailable.
	losses map[string]map[string]uint64
	probes map[string]*probe
}

var _ apiserver.Aggregator = (*Aggregator)(nil)

// New checks c. It starts nothing.
func New(c Config) (*Aggregator, error) {
	if c.APIServices == nil || c.Services == nil || c.EndpointSlices == nil || c.Endpoints == nil || c.Status == nil {
		return nil, errors.New("aggregate: APIServices, Services, EndpointSlices, Endpoints and Status must be set")
	}
	if c.Resolver == nil {
		c.Resolver = ByEndpoints(c.Services, c.Endpoints)
	}
	a := &Aggregator{
		config: c, ready: make(chan struct{}),
		transports: map[identity]*http.Transport{}, said: map[string]answer{}, probes: map[string]*probe{}, losses: map[string]map[string]uint64{},
	}
	a.table.Store(&table{})
	return a, nil
}

// Ready is closed when Run has read the APIServices. From then on, a request that is not proxied is
// for this server.
func (a *Aggregator) Ready() <-chan struct{} { return a.ready }

// GroupVersions returns the group versions of all APIServices, sorted by priority.
func (a *Aggregator) GroupVersions() []apiserver.AggregatedVersion { return a.table.Load().versions }

// Handler returns a proxy to the server of gv, nil if it is no other's.
func (a *Aggregator) Handler(gv schema.GroupVersion) http.Handler {
	if b := a.table.Load().backends[gv]; b != nil {
		return b
	}
	return nil
}
