package aggregate

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/kinds/apiregistration"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// defaultPort is the port of a service whose APIService names none.
const defaultPort = 443

// table holds the APIServices as they were at one time. It is not changed.
type table struct {
	backends map[schema.GroupVersion]*backend
	versions []apiserver.AggregatedVersion
}

// backend passes requests on to the server of one group version.
type backend struct {
	*Aggregator
	gv              schema.GroupVersion
	namespace, name string
	port            int32
	ca              []byte
	insecure        bool
	available       bool
}

// backendOf is nil for what this server has itself.
func (a *Aggregator) backendOf(s *apiregistration.APIService) *backend {
	to := s.Spec.Service
	if to == nil {
		return nil
	}
	b := &backend{
		Aggregator: a, gv: schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version},
		namespace: to.Namespace, name: to.Name, port: defaultPort,
		ca: s.Spec.CABundle, insecure: s.Spec.InsecureSkipTLSVerify, available: available(s),
	}
	if to.Port != nil {
		b.port = *to.Port
	}
	return b
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.pass(w, r) }

// rebuild makes a table of the local cache and what the other servers said.
func (a *Aggregator) rebuild() *table {
	all := slices.Collect(a.config.APIServices.All())
	byPriority(all)
	t := &table{backends: map[schema.GroupVersion]*backend{}}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range all {
		v := apiserver.AggregatedVersion{GroupVersion: schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}}
		if b := a.backendOf(s); b == nil {
			v.Local = true
		} else {
			said := a.said[s.Name]
			v.Resources, v.OpenAPIHash = said.resources, said.hash
			v.Stale = !b.available || !said.current
			t.backends[b.gv] = b
		}
		t.versions = append(t.versions, v)
	}
	a.table.Store(t)
	return t
}

// byPriority puts groups in order by the highest priority that they have
// anywhere, and versions within their group.
func byPriority(all []*apiregistration.APIService) {
	highest := map[string]int32{}
	for _, s := range all {
		highest[s.Spec.Group] = max(highest[s.Spec.Group], s.Spec.GroupPriorityMinimum)
	}
	slices.SortFunc(all, func(x, y *apiregistration.APIService) int {
		return cmp.Or(
			cmp.Compare(highest[y.Spec.Group], highest[x.Spec.Group]), cmp.Compare(x.Spec.Group, y.Spec.Group),
			cmp.Compare(y.Spec.VersionPriority, x.Spec.VersionPriority),
			version.CompareKubeAwareVersionStrings(y.Spec.Version, x.Spec.Version),
		)
	})
}

func available(s *apiregistration.APIService) bool {
	c := conditionOf(s)
	return c != nil && c.Status == metav1.ConditionTrue
}

// conditionOf returns the condition Available of s, nil if it has none.
func conditionOf(s *apiregistration.APIService) *apiregistration.APIServiceCondition {
	for i := range s.Status.Conditions {
		if c := &s.Status.Conditions[i]; c.Type == apiregistration.Available {
			return c
		}
	}
	return nil
}
