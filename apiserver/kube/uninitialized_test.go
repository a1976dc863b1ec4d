package kube_test

import (
	"context"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
)

// noInitializers adds no initializers: objects wait for those that they list themselves.
type noInitializers struct{}

func (noInitializers) Pending(context.Context, *admission.Request) ([]string, error) { return nil, nil }

// TestUninitializedPodChanges: what could not change later can, and is checked.
func TestUninitializedPodChanges(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...),
		apiservertest.WithConfig(func(c *apiserver.Config) { c.Initializers = noInitializers{} })), "application/json"}
	c.do("POST", evictedPods+"?includeUninitialized=true", `{metadata: {name: a, initializers: {pending: [{name: a.b.c}]}}, spec: {containers: [{name: a, image: nginx}]}}`, 201)
	c.do("PUT", evictedPods+"/a", `{metadata: {name: a}, spec: {containers: [{name: a, image: nginx}, {name: a, image: proxy}]}}`, 422)
	c.do("PUT", evictedPods+"/a", `{metadata: {name: a}, spec: {containers: [{name: a, image: nginx}, {name: b, image: proxy}]}}`, 200)
	c.do("PUT", evictedPods+"/a", `{metadata: {name: a, initializers: {}}, spec: {containers: [{name: a, image: nginx}, {name: b, image: proxy}]}}`, 200)
	c.do("PUT", evictedPods+"/a", `{metadata: {name: a}, spec: {containers: [{name: a, image: nginx}]}}`, 422)
}

// TestUninitializedThroughSubresources checks that a client that cannot see an uninitialized pod can
// neither evict nor bind it, and that an uninitialized budget limits no eviction.
func TestUninitializedThroughSubresources(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...),
		apiservertest.WithConfig(func(c *apiserver.Config) { c.Initializers = noInitializers{} })), "application/json"}
	c.do("POST", evictedPods+"?includeUninitialized=true", `{metadata: {name: hidden, initializers: {pending: [{name: a.b.c}]}}, spec: {containers: [{name: a, image: nginx}]}}`, 201)
	c.evict("hidden", "", 404)
	c.do("GET", evictedPods+"/hidden/status", "", 404)
	for _, name := range []string{"web", "db"} {
		c.do("POST", evictedPods, `{metadata: {name: `+name+`, labels: {app: web}}, spec: {containers: [{name: a, image: nginx}]}}`, 201)
		c.do("PUT", evictedPods+"/"+name+"/status", `{metadata: {name: `+name+`, labels: {app: web}}, spec: {containers: [{name: a, image: nginx}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`, 200)
	}
	const budgets = "/apis/policy/v1/namespaces/team/poddisruptionbudgets"
	c.do("POST", budgets+"?includeUninitialized=true", `{metadata: {name: later, initializers: {pending: [{name: a.b.c}]}}, spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}}`, 201)
	c.evict("web", "", 201)
	c.put(budgets+"/later?includeUninitialized=true", `{metadata: {name: later, initializers: {}}, spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}}`, 200)
	c.evict("db", "", 429)
}
