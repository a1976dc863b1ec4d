package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/planekit/planekit/informer"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clientcache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	runtimeclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// each returns the mean time of n calls of do.
func each(n int, do func(i int)) time.Duration {
	start := time.Now()
	for i := range n {
		do(i)
	}
	return time.Since(start) / time.Duration(n)
}

// lookup is one line of the table of single operations, in the order planekit, client-go,
// controller-runtime; nil if one has no such operation.
type lookup struct {
	name  string
	times int
	sides [3]func(i int)
}

// lookups returns operations on the same pods for all sides. closeAll stops the sides.
func lookups(s sizes, pods []*corev1.Pod) (all []lookup, closeAll func(), err error) {
	f := &feed{list: pods, changes: make(chan []*corev1.Pod)}
	p, err := newPlanekit(f)
	if err != nil {
		return nil, nil, err
	}
	byApp := informer.NewIndex(p.inf, func(p *corev1.Pod) []string { return []string{p.Labels["app.kubernetes.io/name"]} })
	p.start()
	indexer := clientcache.NewIndexer(clientcache.MetaNamespaceKeyFunc, clientcache.Indexers{
		clientcache.NamespaceIndex: clientcache.MetaNamespaceIndexFunc,
		"node":                     indexers["node"],
		"app":                      func(o any) ([]string, error) { return []string{o.(*corev1.Pod).Labels["app.kubernetes.io/name"]}, nil },
	})
	for _, pod := range pods {
		if err := indexer.Add(pod); err != nil {
			return nil, nil, err
		}
	}
	copied, closeCopied, err := newCopied(pods)
	if err != nil {
		return nil, nil, err
	}
	keys := make([]string, len(pods))
	for i, pod := range pods {
		keys[i] = key(pod)
	}
	at := func(i int) int { return i * 7919 % len(pods) }
	found := func(n, want int) {
		if n < want {
			panic(fmt.Sprintf("found %d of %d", n, want))
		}
	}
	perApp := len(pods) / templates
	count := func(x *informer.Index[string, *corev1.Pod], key string) (n int) {
		for range x.Get(key) {
			n++
		}
		return n
	}
	all = []lookup{
		{"get by key", s.lookups, [3]func(int){
			func(i int) { o, _ := p.inf.Get(keys[at(i)]); found(len(o.Name), 1) },
			func(i int) { o, _, _ := indexer.GetByKey(keys[at(i)]); found(len(o.(*corev1.Pod).Name), 1) },
			func(i int) {
				var o corev1.Pod
				q := pods[at(i)]
				_ = copied.Get(context.Background(), runtimeclient.ObjectKey{Namespace: q.Namespace, Name: q.Name}, &o)
				found(len(o.Name), 1)
			},
		}},
		{fmt.Sprintf("by index, %d pods", podsPerNode), s.lookups / 10, [3]func(int){
			func(i int) { found(count(p.byNode, pods[at(i)].Spec.NodeName), 1) },
			func(i int) { o, _ := indexer.ByIndex("node", pods[at(i)].Spec.NodeName); found(len(o), 1) },
			func(i int) {
				var list corev1.PodList
				_ = copied.List(context.Background(), &list, runtimeclient.MatchingFields{"spec.nodeName": pods[at(i)].Spec.NodeName})
				found(len(list.Items), 1)
			},
		}},
		{fmt.Sprintf("by index, %d pods", perApp), s.lookups / 1000, [3]func(int){
			func(i int) { found(count(byApp, fmt.Sprintf("app-%d", i%templates)), perApp) },
			func(i int) { o, _ := indexer.ByIndex("app", fmt.Sprintf("app-%d", i%templates)); found(len(o), perApp) },
			nil,
		}},
	}
	return all, func() { closeCopied(); p.stop() }, nil
}

// updatePlanekit measures the cost of a change for the writer, with the same two indexes: in
// planekit from the source's Put until the last change is visible, in client-go only the store's
// own Update.
func updatePlanekit(pods, changes []*corev1.Pod) (time.Duration, error) {
	f := &feed{list: pods, changes: make(chan []*corev1.Pod)}
	p, err := newPlanekit(f)
	if err != nil {
		return 0, err
	}
	p.start()
	defer p.stop()
	start := time.Now()
	f.changes <- changes
	if err := p.inf.WaitFor(context.Background(), changes[len(changes)-1].ResourceVersion); err != nil {
		return 0, err
	}
	return time.Since(start) / time.Duration(len(changes)), nil
}

func updateStock(pods, changes []*corev1.Pod) (time.Duration, error) {
	indexer := clientcache.NewIndexer(clientcache.MetaNamespaceKeyFunc, indexers)
	for _, pod := range pods {
		if err := indexer.Add(pod); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	for _, pod := range changes {
		if err := indexer.Update(pod); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(len(changes)), nil
}

// syncPlanekit measures a first list of decoded objects.
func syncPlanekit(pods []*corev1.Pod) (time.Duration, error) {
	start := time.Now()
	p, err := newPlanekit(&feed{list: pods})
	if err != nil {
		return 0, err
	}
	p.start()
	took := time.Since(start)
	p.stop()
	return took, nil
}

func syncStock(pods []*corev1.Pod) (time.Duration, error) {
	s := newStock(pods)
	start := time.Now()
	s.start()
	took := time.Since(start)
	s.stop()
	return took, nil
}

// newCopied returns controller-runtime's cache of the pods. It uses client-go's reflector; its
// readers receive deep copies.
func newCopied(pods []*corev1.Pod) (cache.Cache, func(), error) {
	server, err := newServer(pods)
	if err != nil {
		return nil, nil, err
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, nil, err
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	c, err := cache.New(&rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}},
		cache.Options{Scheme: scheme, Mapper: mapper, HTTPClient: http.DefaultClient})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := c.IndexField(ctx, &corev1.Pod{}, "spec.nodeName", func(o runtimeclient.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }); err != nil {
		cancel()
		return nil, nil, err
	}
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) {
		cancel()
		return nil, nil, fmt.Errorf("controller-runtime: not synced: %w", <-done)
	}
	var list corev1.PodList
	if err := c.List(ctx, &list); err != nil || len(list.Items) != len(pods) {
		cancel()
		return nil, nil, fmt.Errorf("controller-runtime: %d pods, want %d: %w", len(list.Items), len(pods), err)
	}
	return c, func() {
		cancel()
		<-done
		server.close()
	}, nil
}

func megabytes(bytes float64) string { return strconv.FormatFloat(bytes/1e6, 'f', 1, 64) + " MB" }
