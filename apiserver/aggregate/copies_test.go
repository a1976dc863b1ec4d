package aggregate_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/kinds/apiregistration"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// copies are all that an aggregator reads; it writes conditions into them.
type copies struct {
	apiServices *localcache.Map[*apiregistration.APIService]
	services    *localcache.Map[*corev1.Service]
	slices      *localcache.Map[*discoveryv1.EndpointSlice]
	endpoints   localcache.Index[string, *discoveryv1.EndpointSlice]
	port        int32

	mu     sync.Mutex
	writes int
	refuse error // what writes end with
}

// name is the name of the APIService of metricsV1.
const name = "v1.metrics.example.com"

func newCopies() *copies {
	slices := localcache.NewMap[*discoveryv1.EndpointSlice]()
	return &copies{
		apiServices: localcache.NewMap[*apiregistration.APIService](), services: localcache.NewMap[*corev1.Service](),
		slices: slices, endpoints: localcache.Scan(slices, aggregate.ByService),
	}
}

// UpdateStatus writes conditions unless the object has changed meanwhile.
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
	c.apiServices.Put(s)
	return s, nil
}

// add has a server at address be the service kube-system/metrics, and also
// kube-system/same, which its certificate does not name.
func (c *copies) add(address *net.TCPAddr, ca []byte) {
	c.port = int32(address.Port)
	for _, service := range []string{"metrics", "same"} {
		c.services.Put(service443(service))
		c.slices.Put(slice(service, c.port))
	}
	c.apiServices.Put(&apiregistration.APIService{
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
