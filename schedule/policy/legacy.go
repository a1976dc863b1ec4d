package policy

import (
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/legacy"
)

// labelPreferences is the mean of the preferences for labels; nil if there are none.
func labelPreferences(_ *Parts, a *arguments) schedule.Priority {
	var list []schedule.Priority
	for _, label := range a.labels.likes {
		list = append(list, legacy.LabelPreference(label, true))
	}
	for _, label := range a.labels.dislikes {
		list = append(list, legacy.LabelPreference(label, false))
	}
	return meanOf("NodeLabel", list)
}

// serviceAffinityOf keeps pods of a service together; nil without services.
func serviceAffinityOf(parts *Parts, a *arguments) schedule.Predicate {
	if parts.Services == nil {
		return nil
	}
	return legacy.ServiceAffinity(parts.Services, a.labels.together...)
}

// serviceAntiAffinityOf is the mean over the labels by which the pods of a service spread; nil without services.
func serviceAntiAffinityOf(parts *Parts, a *arguments) schedule.Priority {
	if parts.Services == nil {
		return nil
	}
	var list []schedule.Priority
	for _, label := range a.labels.apart {
		list = append(list, legacy.ServiceAntiAffinity(parts.Services, label))
	}
	return meanOf("ServiceAffinity", list)
}

func meanOf(name string, list []schedule.Priority) schedule.Priority {
	if len(list) == 0 {
		return nil
	}
	return mean{name, list}
}

// mean is the mean of priorities. It implements [schedule.Surveyor].
type mean struct {
	name string
	of   []schedule.Priority
}

func (m mean) Name() string { return m.name }

// Score implements [schedule.Priority]. A State does not call it.
func (m mean) Score(p *schedule.PodInfo, n *schedule.NodeInfo) int64 {
	var sum int64
	for _, one := range m.of {
		sum += one.Score(p, n)
	}
	return sum / int64(len(m.of))
}

// Survey implements [schedule.Surveyor].
func (m mean) Survey(p *schedule.PodInfo, c schedule.Cluster, nodes []*schedule.NodeInfo) func(*schedule.NodeInfo) int64 {
	scores := make([]func(*schedule.NodeInfo) int64, len(m.of))
	for i, one := range m.of {
		scores[i] = func(n *schedule.NodeInfo) int64 { return one.Score(p, n) }
		if s, ok := one.(schedule.Surveyor); ok {
			scores[i] = s.Survey(p, c, nodes)
		}
	}
	return func(n *schedule.NodeInfo) int64 {
		var sum int64
		for _, score := range scores {
			if score != nil {
				sum += score(n)
			}
		}
		return sum / int64(len(scores))
	}
}
