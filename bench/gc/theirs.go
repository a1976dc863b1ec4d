package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

var (
	podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	setResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
)

// theirs returns the collector of kube-controller-manager, with its 20 workers, over synced
// informers.
func theirs(ctx context.Context, s *stock) (func(context.Context), error) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	client := metadataClient{s}
	factory := metadataFactory{metadatainformer.NewSharedInformerFactory(client, 0)}
	for _, r := range []schema.GroupVersionResource{podResource, setResource} {
		factory.SharedInformerFactory.ForResource(r).Informer()
	}
	factory.Start(ctx.Done())
	for r, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return nil, fmt.Errorf("the informer of %v has no list", r)
		}
	}
	started := make(chan struct{})
	close(started)
	collector, err := garbagecollector.NewGarbageCollector(ctx, fake.NewSimpleClientset(), client, newMapper(), nil, factory, started)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		go collector.Sync(ctx, resources{}, time.Hour)
		collector.Run(ctx, 20, time.Minute)
	}, nil
}

type metadataFactory struct {
	metadatainformer.SharedInformerFactory
}

func (f metadataFactory) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	return f.SharedInformerFactory.ForResource(r), nil
}

// mapper maps the two kinds.
type mapper struct{ *meta.DefaultRESTMapper }

func newMapper() mapper {
	m := mapper{meta.NewDefaultRESTMapper(nil)}
	m.AddSpecific(podKind, podResource, podResource, meta.RESTScopeNamespace)
	m.AddSpecific(setKind, setResource, setResource, meta.RESTScopeNamespace)
	return m
}

func (mapper) Reset() {}

// resources answers discovery requests.
type resources struct {
	discovery.ServerResourcesInterface
}

func (resources) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	verbs := metav1.Verbs{"delete", "list", "watch"}
	return []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Namespaced: true, Kind: podKind.Kind, Verbs: verbs}}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "replicasets", Namespaced: true, Kind: setKind.Kind, Verbs: verbs}}},
	}, nil
}

// metadataClient serves the metadata of the objects.
type metadataClient struct{ stock *stock }

func (c metadataClient) Resource(r schema.GroupVersionResource) metadata.Getter {
	if r == setResource {
		return metadataResource{resource: resource{c.stock, setKind}, objects: c.stock.sets}
	}
	return metadataResource{resource: resource{c.stock, podKind}, objects: c.stock.pods}
}

type metadataResource struct {
	metadata.ResourceInterface // the other methods are not called
	resource                   resource
	objects                    []*metav1.PartialObjectMetadata
	namespace                  string
}

func (r metadataResource) Namespace(namespace string) metadata.ResourceInterface {
	r.namespace = namespace
	return r
}

func (r metadataResource) Get(ctx context.Context, name string, _ metav1.GetOptions, _ ...string) (*metav1.PartialObjectMetadata, error) {
	return r.resource.Get(ctx, r.namespace, name)
}

func (r metadataResource) Delete(ctx context.Context, name string, o metav1.DeleteOptions, _ ...string) error {
	return r.resource.Delete(ctx, r.namespace, name, o)
}

func (r metadataResource) List(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for _, o := range r.objects {
		list.Items = append(list.Items, *o)
	}
	return list, nil
}

func (r metadataResource) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil {
		return nil, fmt.Errorf("the list must be asked for")
	}
	return watch.NewFake(), nil
}
