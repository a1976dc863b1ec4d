package schedule

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// A Profile says how the pods of one schedulerName are scheduled. The profiles of a [Scheduler] share its
// caches, its queue and its view of the nodes, so that a pod of one profile takes room from the others.
type Profile struct {
	// Name is the schedulerName of the pods; empty means "default-scheduler".
	Name string
	// Predicates and Priorities are as in [Config].
	Predicates []Predicate
	Priorities []Weighted
	// NoPreemption means that the pods never preempt others.
	NoPreemption bool

	// extensions are Config.Extensions and those among the predicates.
	extensions *extensions
	// asked counts the questions to predicates and priorities; a State has its own.
	asked *evaluations
}

// profiles returns the profiles of a configuration with their defaults.
func (c *Config) profiles() ([]Profile, error) {
	list := []Profile{{Name: c.Name, Predicates: c.Predicates, Priorities: c.Priorities}}
	if len(c.Profiles) > 0 {
		if c.Name != "" || c.Predicates != nil || c.Priorities != nil {
			return nil, errors.New("schedule: Profiles must not be set together with Name, Predicates or Priorities")
		}
		list = append([]Profile(nil), c.Profiles...)
	}
	known := make(map[string]bool)
	for i := range list {
		p := &list[i]
		if p.Name == "" {
			p.Name = corev1.DefaultSchedulerName
		}
		if known[p.Name] {
			return nil, fmt.Errorf("schedule: two profiles have the name %s", p.Name)
		}
		known[p.Name] = true
		for _, w := range p.Priorities {
			if w.Weight < 0 {
				return nil, errors.New("schedule: negative weight of " + w.Name())
			}
		}
		extensions, err := newExtensions(p.Predicates, c.Extensions)
		if err != nil {
			return nil, err
		}
		p.extensions = extensions
	}
	return list, nil
}

// NewStateOf returns a State without nodes. A pod is judged by the profile that its schedulerName names, and
// by the first one if it names none of them; there must be at least one. seed seeds the random choice between
// equal nodes.
func NewStateOf(profiles []Profile, seed uint64) *State {
	s := NewState(nil, nil, seed)
	s.profiles = countEvaluations(profiles)
	return s
}

// profileOf returns the profile of a pod.
func (s *State) profileOf(p *PodInfo) *Profile {
	if i := indexOf(s.profiles, p.Pod.Spec.SchedulerName); i > 0 {
		return &s.profiles[i]
	}
	return &s.profiles[0]
}

// indexOf returns the index of the profile called name, or -1.
func indexOf(profiles []Profile, name string) int {
	for i := range profiles {
		if profiles[i].Name == name {
			return i
		}
	}
	return -1
}
