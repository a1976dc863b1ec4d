package main

import (
	"context"
	"crypto/tls"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/kube/apiregistration"
	"github.com/planekit/planekit/authn/requestheader"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/pki"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// frontProxyName is what this API server is called by those behind it.
const frontProxyName = "front-proxy-client"

// frontProxy is how this server shows itself to those behind it.
type frontProxy struct {
	*pki.Authority           // signs nothing but front proxies
	pair           *pki.Pair // of this server
	clientCA       []byte    // PEM of who signs clients
}

func openFrontProxy(dataDir string, clients *pki.Authority) (*frontProxy, error) {
	authority, err := pki.Open(filepath.Join(dataDir, "pki", "front-proxy"))
	if err != nil {
		return nil, err
	}
	pair, err := authority.Client("client", frontProxyName)
	return &frontProxy{authority, pair, clients.CertificatePEM}, err
}

// authenticator believes what front proxies say of users.
func (f *frontProxy) authenticator() (*requestheader.Authenticator, error) {
	return requestheader.New(requestheader.Config{Roots: f.Pool(), AllowedNames: []string{frontProxyName}})
}

// aggregate adds to p what passes groups on to other API servers.
func (f *frontProxy) aggregate(p *policy, log logr.Logger) (*aggregate.Aggregator, error) {
	objects, err := newCache(p, apiServices(p.client), log)
	if err != nil {
		return nil, err
	}
	services, err := newCache(p, typed.Services(p.client), log)
	if err != nil {
		return nil, err
	}
	endpoints, err := newCache(p, typed.EndpointSlices(p.client), log)
	if err != nil {
		return nil, err
	}
	certificate := f.pair.TLS()
	aggregator, err := aggregate.New(aggregate.Config{
		APIServices: objects, Services: services,
		EndpointSlices: endpoints, Endpoints: informer.NewIndex(endpoints, aggregate.ByService),
		Status:      apiServices(p.client),
		Certificate: func() (*tls.Certificate, error) { return &certificate, nil },
		Log:         log.WithName("aggregation"),
	})
	if err == nil {
		p.parts = append(p.parts, aggregator.Run)
	}
	return aggregator, err
}

// apiServices are those of the group apiregistration.k8s.io.
func apiServices(api *client.Client) client.Resource[*apiregistration.APIService] {
	return client.For(api, client.Type[*apiregistration.APIService]{
		Group: apiregistration.GroupName, Version: "v1", Kind: "APIService", Plural: "apiservices",
		New: func() *apiregistration.APIService { return &apiregistration.APIService{} },
	})
}

// register says which groups this server has itself.
func register(ctx context.Context, api *client.Client, resources []apiserver.Resource) error {
	var versions []schema.GroupVersion
	for _, r := range resources {
		versions = append(versions, schema.GroupVersion{Group: r.Group, Version: r.Version})
	}
	return aggregate.Register(ctx, apiServices(api), aggregate.Local(versions...))
}

// publish tells the servers behind this one whom to believe, and who may read it.
func (f *frontProxy) publish(ctx context.Context, api *client.Client) error {
	roles, bindings := rbac.BootstrapNamespacedPolicy()
	for _, role := range roles {
		if err := create(ctx, typed.Roles(api), role); err != nil {
			return err
		}
	}
	for _, binding := range bindings {
		if err := create(ctx, typed.RoleBindings(api), binding); err != nil {
			return err
		}
	}
	return aggregate.Publish(ctx, typed.ConfigMaps(api), aggregate.AuthenticationConfigMap(f.clientCA, f.CertificatePEM, frontProxyName))
}
