package schedule

// Evaluation is a question to a predicate or priority of a profile. The points are kube-scheduler's: PreFilter, when
// a [Preparer] looks at the cluster; Filter, about one node; PreScore, when a [Surveyor] or [ClassPriority] looks at
// the cluster; and Score, about one node.
type Evaluation struct{ Plugin, Point, Profile string }

// evaluations counts the questions of one profile, by the index of the predicate or priority.
type evaluations struct {
	prepared, filtered []uint64
	surveyed, scored   []uint64
}

// countEvaluations returns a copy of profiles whose questions are counted.
func countEvaluations(profiles []Profile) []Profile {
	list := append([]Profile(nil), profiles...)
	for i := range list {
		predicates, priorities := len(list[i].Predicates), len(list[i].Priorities)
		list[i].asked = &evaluations{
			make([]uint64, predicates), make([]uint64, predicates), make([]uint64, priorities), make([]uint64, priorities),
		}
	}
	return list
}

// evaluations returns how often each question was asked.
func (s *State) evaluations() map[Evaluation]uint64 {
	all := make(map[Evaluation]uint64)
	for i := range s.profiles {
		p := &s.profiles[i]
		add := func(plugin, point string, n uint64) {
			if n > 0 {
				all[Evaluation{plugin, point, p.Name}] += n
			}
		}
		for k, predicate := range p.Predicates {
			add(predicate.Name(), "PreFilter", p.asked.prepared[k])
			add(predicate.Name(), "Filter", p.asked.filtered[k])
		}
		for k, w := range p.Priorities {
			add(w.Name(), "PreScore", p.asked.surveyed[k])
			add(w.Name(), "Score", p.asked.scored[k])
		}
	}
	return all
}
