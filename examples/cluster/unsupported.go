package main

import (
	"context"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/unsupported"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/events"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unsupported warns of what this cluster stores and nothing acts on. Its events come from the
// API server.
func (g *gate) unsupported() (admission.Validator, error) {
	log := g.cluster.log.WithName("unsupported")
	recorder, err := events.New(events.Config{Client: g.api, Component: "apiserver", Log: log})
	if err != nil {
		return nil, err
	}
	plugin, err := unsupported.New(unsupported.Config{Lookup: g.stored, Event: recorder.Event, Log: log})
	if err != nil {
		return nil, err
	}
	g.run("events about fields without effect", recorder.Run)
	g.run("fields without effect", plugin.Run)
	return plugin, nil
}

// stored reads the metadata of an object.
func (g *gate) stored(ctx context.Context, r admission.GroupVersionResource, k admission.GroupVersionKind, namespace, name string) (metav1.Object, error) {
	return client.For(g.api, client.Type[*metav1.PartialObjectMetadata]{
		Group: r.Group, Version: r.Version, Kind: k.Kind, Plural: r.Resource, Namespaced: namespace != "",
		New: func() *metav1.PartialObjectMetadata { return &metav1.PartialObjectMetadata{} },
	}).Get(ctx, namespace, name)
}
