package aggregate

import (
	"maps"

	"github.com/planekit/planekit/kinds/apiregistration"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Availability describes an APIService for metrics.
type Availability struct {
	Name string
	// Available is the status of the condition Available.
	Available bool
	// Losses counts, by reason, how often it became unavailable.
	Losses map[string]uint64
}

// Availability returns the availability of all APIServices.
func (a *Aggregator) Availability() []Availability {
	var all []Availability
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.config.APIServices.All() {
		all = append(all, Availability{s.Name, available(s), maps.Clone(a.losses[s.Name])})
	}
	return all
}

// lost counts that an available APIService has become unavailable. old is its condition before, nil if
// it had none, and s has the new one.
func (a *Aggregator) lost(old *apiregistration.APIServiceCondition, s *apiregistration.APIService) {
	if old == nil || old.Status != metav1.ConditionTrue || available(s) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.losses[s.Name] == nil {
		a.losses[s.Name] = map[string]uint64{}
	}
	a.losses[s.Name][conditionOf(s).Reason]++
}
