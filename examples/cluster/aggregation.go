package main

import (
	"context"
	"crypto/tls"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/kube/apiregistration"
	"github.com/planekit/planekit/authn/requestheader"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/pki"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// frontProxyName is what this API server is called by those behind it.
const frontProxyName = "front-proxy-client"

var apiServiceKind = schema.GroupVersionKind{Group: apiregistration.GroupName, Version: "v1", Kind: "APIService"}

// apiServices are those of the group apiregistration.k8s.io.
func apiServices(api *client.Client) client.Resource[*apiregistration.APIService] {
	return client.For(api, client.Type[*apiregistration.APIService]{
		Group: apiServiceKind.Group, Version: apiServiceKind.Version, Kind: apiServiceKind.Kind, Plural: "apiservices",
		New: func() *apiregistration.APIService { return &apiregistration.APIService{} },
	})
}

// openFrontProxy opens or makes the authority of front proxies, which is not that
// of clients: who has a certificate of it may speak for everybody.
func (c *credentials) openFrontProxy(dir string) (err error) {
	if c.frontProxy, err = pki.Open(dir); err != nil {
		return err
	}
	c.frontClient, err = c.frontProxy.Client("client", frontProxyName)
	return err
}

// frontProxies believes what front proxies say of users.
func (c *credentials) frontProxies() (*requestheader.Authenticator, error) {
	return requestheader.New(requestheader.Config{Roots: c.frontProxy.Pool(), AllowedNames: []string{frontProxyName}})
}

// newAggregator passes groups on to other API servers, at the endpoints of their
// services: nothing need forward to cluster IPs on this machine.
func (c *cluster) newAggregator(api *client.Client) (*aggregate.Aggregator, error) {
	certificate := c.credentials.frontClient.TLS()
	return aggregate.New(aggregate.Config{
		APIServices:    c.copies.apiServices,
		Services:       c.copies.services,
		EndpointSlices: c.copies.endpointSlices,
		Endpoints:      c.endpoints,
		Status:         apiServices(api),
		Certificate:    func() (*tls.Certificate, error) { return &certificate, nil },
		Log:            c.log.WithName("aggregation"),
	})
}

// seedAPIServices says which groups this server has itself.
func seedAPIServices(ctx context.Context, api *client.Client, resources []apiserver.Resource) error {
	var versions []schema.GroupVersion
	for _, r := range resources {
		versions = append(versions, schema.GroupVersion{Group: r.Group, Version: r.Version})
	}
	return aggregate.Register(ctx, apiServices(api), aggregate.Local(versions...))
}

// authenticationConfigMap tells extension API servers whom to believe.
func (c *credentials) authenticationConfigMap() *corev1.ConfigMap {
	return aggregate.AuthenticationConfigMap(c.authority.CertificatePEM, c.frontProxy.CertificatePEM, frontProxyName)
}
