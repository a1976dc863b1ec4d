package objects_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver/flowcontrol/objects"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestModel lets a user do anything to any object, alone and while servers with old
// copies write, and expects the rules to hold afterwards.
func TestModel(t *testing.T) {
	for range 6 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			m := &modelled{world: newWorld(t), random: rand.New(rand.NewPCG(seed, 0)), seed: seed, mine: map[string]int32{}}
			var targets []*target
			for range 1 + m.random.IntN(3) {
				to, _ := m.keep(time.Duration(m.random.IntN(3)) * 300 * time.Millisecond)
				targets = append(targets, to)
			}
			for range 15 {
				for range 1 + m.random.IntN(4) {
					m.act()
					after(time.Duration(m.random.IntN(1500)) * time.Millisecond)
				}
				// Two passes, and the end of a pause.
				after(5 * time.Minute)
				m.check(targets)
			}
		})
	}
}

type modelled struct {
	*world
	random *rand.Rand
	seed   uint64
	// mine are the shares of suggested levels that a user has kept by the
	// annotation, until the user gives it up.
	mine map[string]int32
}

var (
	modelLevels  = []string{"exempt", "catch-all", "system", "workload-low", "team", "other"}
	modelSchemas = []string{"exempt", "catch-all", "probes", "global-default", "team", "other"}
)

// act is one thing that a user does.
func (m *modelled) act() {
	annotations := map[string]string{annotation: []string{"true", "false", "false", "nonsense"}[m.random.IntN(4)]}
	if m.random.IntN(4) == 0 {
		annotations = nil
	}
	shares := int32(m.random.IntN(100))
	if m.random.IntN(2) == 0 {
		name := modelLevels[m.random.IntN(len(modelLevels))]
		l, ok := m.levels.get(name)
		switch {
		case !ok:
			l = newLevel(name)
			l.Annotations, l.Spec.Limited.NominalConcurrencyShares = annotations, new(shares)
			_, err := m.levels.Create(m.t.Context(), l)
			m.took(name, annotations, shares, err)
		case m.random.IntN(3) == 0:
			if m.levels.Delete(m.t.Context(), "", name, metav1.DeleteOptions{}) == nil {
				delete(m.mine, name)
			}
		default:
			l = l.DeepCopy()
			l.Annotations = annotations
			if l.Spec.Limited != nil {
				l.Spec.Limited.NominalConcurrencyShares = new(shares)
			}
			_, err := m.levels.Update(m.t.Context(), l)
			m.took(name, annotations, shares, err)
		}
		return
	}
	name := modelSchemas[m.random.IntN(len(modelSchemas))]
	s, ok := m.schemas.get(name)
	switch {
	case !ok:
		s = newSchema(name, modelLevels[m.random.IntN(len(modelLevels))])
		s.Annotations = annotations
		_, _ = m.schemas.Create(m.t.Context(), s)
	case m.random.IntN(3) == 0:
		_ = m.schemas.Delete(m.t.Context(), "", name, metav1.DeleteOptions{})
	default:
		s = s.DeepCopy()
		s.Annotations = annotations
		s.Spec.PriorityLevelConfiguration.Name = modelLevels[m.random.IntN(len(modelLevels))]
		if m.random.IntN(3) == 0 {
			s.Status.Conditions = nil
			_, _ = m.schemas.UpdateStatus(m.t.Context(), s)
			return
		}
		_, _ = m.schemas.Update(m.t.Context(), s)
	}
}

// took notes that the user has written a level.
func (m *modelled) took(name string, annotations map[string]string, shares int32, err error) {
	if err != nil {
		return
	}
	if delete(m.mine, name); annotations[annotation] == "false" {
		m.mine[name] = shares
	}
}

func (m *modelled) check(targets []*target) {
	t := m.t
	t.Helper()
	mandatory, suggested := objects.Mandatory(), objects.Suggested()
	isMandatory := map[string]bool{}
	for _, l := range mandatory.Levels {
		isMandatory[l.Name] = true
		delete(m.mine, l.Name)
	}
	wanted := map[string]bool{}
	for _, want := range append(mandatory.Levels, suggested.Levels...) {
		wanted["level "+want.Name] = true
		have, ok := m.levels.get(want.Name)
		if !ok {
			t.Errorf("seed %d: there is no level %s", m.seed, want.Name)
			continue
		}
		m.checkSpec(want.Name, isMandatory[want.Name], have.Annotations, equality.Semantic.DeepEqual(want.Spec, have.Spec))
		if shares, ok := m.mine[want.Name]; ok && *have.Spec.Limited.NominalConcurrencyShares != shares {
			t.Errorf("seed %d: level %s: a user's change is lost", m.seed, want.Name)
		}
	}
	for _, want := range append(mandatory.Schemas, suggested.Schemas...) {
		wanted["schema "+want.Name] = true
		have, ok := m.schemas.get(want.Name)
		if !ok {
			t.Errorf("seed %d: there is no schema %s", m.seed, want.Name)
			continue
		}
		m.checkSpec(want.Name, isMandatory[want.Name], have.Annotations, equality.Semantic.DeepEqual(want.Spec, have.Spec))
	}
	for _, l := range m.levels.list() {
		if !wanted["level "+l.Name] && l.Annotations[annotation] == "true" {
			t.Errorf("seed %d: level %s is there", m.seed, l.Name)
		}
	}
	for _, s := range m.schemas.list() {
		if !wanted["schema "+s.Name] && s.Annotations[annotation] == "true" {
			t.Errorf("seed %d: schema %s is there", m.seed, s.Name)
		}
		state := "True NotFound:"
		if _, ok := m.levels.get(s.Spec.PriorityLevelConfiguration.Name); ok {
			state = "False Found:"
		}
		if got := condition(s); !strings.HasPrefix(got, state) || !strings.Contains(got, strconv.Quote(s.Spec.PriorityLevelConfiguration.Name)) {
			t.Errorf("seed %d: schema %s: condition %q, want %s", m.seed, s.Name, got, state)
		}
	}
	want, _ := objects.Config(m.levels.list(), m.schemas.list(), 600)
	for _, to := range targets {
		if got, _ := to.have(); !sameConfig(got, want) {
			t.Errorf("seed %d: configured\n%+v\nwant\n%+v", m.seed, got, want)
		}
	}
	before := m.writes()
	after(10 * time.Minute)
	if n := m.writes() - before; n > 0 {
		t.Errorf("seed %d: %d writes for nothing", m.seed, n)
	}
}

// checkSpec expects a bootstrap object to be marked, and to have its spec unless the
// user has another one.
func (m *modelled) checkSpec(name string, mandatory bool, annotations map[string]string, same bool) {
	m.t.Helper()
	switch marked := annotations[flowcontrolv1.AutoUpdateAnnotationKey]; {
	case marked != "true" && marked != "false", mandatory && marked != "true":
		m.t.Errorf("seed %d: %s has annotations %v", m.seed, name, annotations)
	case marked == "true" && !same:
		m.t.Errorf("seed %d: %s is not restored", m.seed, name)
	}
}
