package main

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/plane"
)

// lampResource returns what a server must know about lamps.
func lampResource() apiserver.Resource {
	strategy, status := apiserver.SpecStatus(
		func(l *Lamp) *Light { return &l.Spec },
		func(l *Lamp) *Light { return &l.Status },
	)
	return apiserver.For(lampKind, apiserver.Resource{Strategy: strategy, Subresources: []apiserver.Subresource{status}})
}

// serve runs a control plane in memory that has lamps, and writes its kubeconfig to file.
func serve(ctx context.Context, file string) error {
	p, err := plane.New(plane.Config{Resources: []apiserver.Resource{lampResource()}})
	if err != nil {
		return err
	}
	if err := p.Kubeconfig().Write(file); err != nil {
		return err
	}
	fmt.Printf(`serving lamps at %s; try, for example:
  echo '{"apiVersion":"example.com/v1","kind":"Lamp","metadata":{"name":"hall"},"spec":{"lit":true}}' |
    kubectl --kubeconfig %s create -f -
`, p.URL(), file)
	return p.Run(ctx)
}
