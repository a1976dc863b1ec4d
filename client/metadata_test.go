package client_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kinds/kind"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// firstSeen passes on the first object that it gets.
type firstSeen chan *metav1.PartialObjectMetadata

func (f firstSeen) Replace(_ string, objects []*metav1.PartialObjectMetadata) {}
func (f firstSeen) Put(_ string, o *metav1.PartialObjectMetadata)             { f <- o }
func (f firstSeen) Remove(string, *metav1.PartialObjectMetadata)              {}
func (f firstSeen) Bookmark(string)                                           {}

// TestMetadata reads pods as their metadata, of which the server sends nothing else, in all ways.
func TestMetadata(t *testing.T) {
	for name, c := range clients(t) {
		t.Run(name, func(t *testing.T) {
			if _, err := typed.Namespaces(c).Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "m-" + name}}); err != nil {
				t.Fatal(err)
			}
			metadata := client.For(c, kind.Define(kind.Kind[*metav1.PartialObjectMetadata]{Version: "v1", Kind: "Pod", Plural: "pods", Namespaced: true}))
			check := func(o *metav1.PartialObjectMetadata, err error) {
				t.Helper()
				if err != nil || o.Name != "web" || o.Kind != "Pod" || o.APIVersion != "v1" {
					t.Errorf("the metadata is %v, %v, want the v1 Pod web", o, err)
				}
			}
			_, revision, err := metadata.List(t.Context(), "m-"+name, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			p := pod("web", "")
			p.Namespace = "m-" + name
			if _, err := typed.Pods(c).Create(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			check(metadata.Get(t.Context(), p.Namespace, "web"))
			all, _, err := metadata.List(t.Context(), p.Namespace, metav1.ListOptions{})
			if err != nil || len(all) != 1 {
				t.Fatalf("List(%q) = %v, %v, want 1 object", p.Namespace, all, err)
			}
			check(all[0], nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			seen := make(firstSeen)
			go func() { _ = metadata.Where(p.Namespace, "", "").Sync(ctx, revision, seen) }()
			check(<-seen, nil)
		})
	}
}

// recorded is a transport that keeps the bodies of answers.
type recorded struct {
	http.RoundTripper
	body []byte
}

func (r *recorded) RoundTrip(q *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(q)
	if err == nil {
		r.body, err = io.ReadAll(response.Body)
		response.Body = io.NopCloser(bytes.NewReader(r.body))
	}
	return response, err
}

// TestMetadataAlone: an object that is read as its metadata is sent without anything else.
func TestMetadataAlone(t *testing.T) {
	server := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...))
	transport := &recorded{RoundTripper: server.As("root", "system:masters").Transport}
	c, err := client.New(client.InProcess(transport))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := typed.Namespaces(c).Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := typed.Namespaces(c).Get(t.Context(), "", "a"); err != nil || !bytes.Contains(transport.body, []byte("Active")) {
		t.Fatalf("Get of the namespace received %q, %v, want a body with Active", transport.body, err)
	}
	metadata := client.For(c, kind.Define(kind.Kind[*metav1.PartialObjectMetadata]{Version: "v1", Kind: "Namespace", Plural: "namespaces"}))
	if _, err := metadata.Get(t.Context(), "", "a"); err != nil || bytes.Contains(transport.body, []byte("Active")) {
		t.Errorf("Get of the metadata received %q, %v, want a body without Active", transport.body, err)
	}
	if all, _, err := metadata.List(t.Context(), "", metav1.ListOptions{}); err != nil || len(all) == 0 || bytes.Contains(transport.body, []byte("Active")) {
		t.Errorf("List = %d objects, %v, received %q, want some objects and a body without Active", len(all), err, transport.body)
	}
}
