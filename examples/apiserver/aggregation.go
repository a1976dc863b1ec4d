package main

import (
	"crypto/tls"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/plane/credentials"
)

// aggregate returns the aggregator, which passes groups on to other API servers, and adds it to
// the parts.
func (p *policy) aggregate(c *credentials.Credentials, log logr.Logger) (*aggregate.Aggregator, error) {
	objects, err := newCache(p, typed.APIServices(p.client), log)
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
	certificate := c.FrontClient.TLS()
	aggregator, err := aggregate.New(aggregate.Config{
		APIServices: objects, Services: services,
		EndpointSlices: endpoints, Endpoints: informer.NewIndex(endpoints, aggregate.ByService),
		Status:      typed.APIServices(p.client),
		Certificate: func() (*tls.Certificate, error) { return &certificate, nil },
		Log:         log.WithName("aggregation"),
	})
	if err == nil {
		p.parts = append(p.parts, aggregator.Run)
	}
	return aggregator, err
}
