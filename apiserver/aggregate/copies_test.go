package aggregate_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/kube/apiregistration"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// localCopy is an aggregate.Copy of what the test puts into it.
type localCopy[V any] struct {
	mu      sync.Mutex
	objects map[string]*V
	// told is held while the subscribers are called, one after the other.
	told        sync.Mutex
	subscribers map[int]func(old, new *V)
}

func (c *localCopy[V]) Get(key string) (*V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	object, ok := c.objects[key]
	return object, ok
}

func (c *localCopy[V]) All() iter.Seq[*V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Values(slices.Collect(maps.Values(c.objects)))
}

func (c *localCopy[V]) Subscribe(handle func(old, new *V)) func() {
	c.told.Lock()
	defer c.told.Unlock()
	if c.subscribers == nil {
		c.subscribers = map[int]func(old, new *V){}
	}
	id := len(c.subscribers)
	c.subscribers[id] = handle
	for object := range c.All() {
		handle(nil, object)
	}
	return func() {
		c.told.Lock()
		defer c.told.Unlock()
		delete(c.subscribers, id)
	}
}

func (c *localCopy[V]) Synced() <-chan struct{} {
	synced := make(chan struct{})
	close(synced)
	return synced
}

// set puts an object into the copy, or takes it out.
func (c *localCopy[V]) set(key string, object *V) {
	c.told.Lock()
	defer c.told.Unlock()
	c.mu.Lock()
	if c.objects == nil {
		c.objects = map[string]*V{}
	}
	old := c.objects[key]
	if c.objects[key] = object; object == nil {
		delete(c.objects, key)
	}
	c.mu.Unlock()
	for _, handle := range c.subscribers {
		handle(old, object)
	}
}

// copies are all that an aggregator reads; it writes conditions into them.
type copies struct {
	apiServices localCopy[apiregistration.APIService]
	services    localCopy[corev1.Service]
	slices      localCopy[discoveryv1.EndpointSlice]
	port        int32

	mu     sync.Mutex
	writes int
	refuse error // what writes end with
}

// name is that of the APIService of metricsV1.
const name = "v1.metrics.example.com"

// Get returns the slices of a service.
func (c *copies) Get(service string) iter.Seq[*discoveryv1.EndpointSlice] {
	return func(yield func(*discoveryv1.EndpointSlice) bool) {
		for s := range c.slices.All() {
			if slices.Contains(aggregate.ByService(s), service) && !yield(s) {
				return
			}
		}
	}
}

// UpdateStatus writes conditions where nobody has written meanwhile.
func (c *copies) UpdateStatus(_ context.Context, s *apiregistration.APIService) (*apiregistration.APIService, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	if c.refuse != nil {
		return nil, c.refuse
	}
	have, ok := c.apiServices.Get(s.Name)
	if !ok || have.ResourceVersion != s.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "apiservices"}, s.Name, fmt.Errorf("%v", ok))
	}
	s = s.DeepCopy()
	number, _ := strconv.Atoi(s.ResourceVersion)
	s.ResourceVersion = strconv.Itoa(number + 1)
	c.apiServices.set(s.Name, s)
	return s, nil
}

// add has a server at address be the service kube-system/metrics, and also
// kube-system/same, which its certificate does not name.
func (c *copies) add(address *net.TCPAddr, ca []byte) {
	c.port = int32(address.Port)
	for _, service := range []string{"metrics", "same"} {
		c.services.set("kube-system/"+service, service443(service))
		c.slices.set("kube-system/"+service, slice(service, c.port))
	}
	c.apiServices.set(name, &apiregistration.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiregistration.APIServiceSpec{
			Group: metricsV1.Group, Version: metricsV1.Version, CABundle: ca, GroupPriorityMinimum: 100, VersionPriority: 10,
			Service: &apiregistration.ServiceReference{Namespace: "kube-system", Name: "metrics", Port: new(int32(443))},
		},
	})
}

func service443(service string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: service},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.9", Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}
}

func slice(service string, port int32, addresses ...string) *discoveryv1.EndpointSlice {
	if addresses == nil {
		addresses = []string{"127.0.0.1"}
	}
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		Ports:      []discoveryv1.EndpointPort{{Name: new("https"), Port: &port}},
	}
	for _, address := range addresses {
		address, unready := strings.CutPrefix(address, "unready ")
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(!unready)},
		})
	}
	return s
}
