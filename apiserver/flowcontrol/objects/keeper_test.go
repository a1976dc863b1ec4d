package objects_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver/flowcontrol"
	"github.com/planekit/planekit/apiserver/flowcontrol/objects"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const annotation = "apf.kubernetes.io/autoupdate-spec"

// TestKeeperStarts: an empty cluster gets all objects, found, and the configuration
// is that of flowcontrol.Default.
func TestKeeperStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		to, _ := w.keep(0)
		after(2 * time.Second)
		if l, s := len(w.levels.list()), len(w.schemas.list()); l != 8 || s != 11 {
			t.Errorf("%d levels and %d schemas", l, s)
		}
		for _, s := range w.schemas.list() {
			want := `False Found: This FlowSchema references the PriorityLevelConfiguration object named "` + s.Spec.PriorityLevelConfiguration.Name + `" and it exists`
			if got := condition(s); got != want {
				t.Errorf("the schema %s has the condition %q, want %q", s.Name, got, want)
			}
			if time.Since(s.Status.Conditions[0].LastTransitionTime.Time) > 3*time.Second {
				t.Errorf("%s: since %v", s.Name, s.Status.Conditions[0].LastTransitionTime)
			}
		}
		got, times := to.have()
		want, _ := objects.Config(w.levels.list(), w.schemas.list(), 600)
		if !sameConfig(got, want) || !sameConfig(got, flowcontrol.Default(600)) {
			t.Errorf("configuration %+v", got)
		}
		// The mandatory configuration first, and the objects that come together once.
		if times > 3 {
			t.Errorf("configured %d times", times)
		}
		before := w.writes()
		after(24 * time.Hour)
		if n := w.writes() - before; n > 0 {
			t.Errorf("%d writes for nothing", n)
		}
	})
}

// sameConfig compares without regard to order.
func sameConfig(a, b flowcontrol.Config) bool {
	text := func(c flowcontrol.Config) string {
		levels, schemas := objectsOf(c)
		slices.Sort(levels)
		slices.Sort(schemas)
		return strings.Join(append(levels, schemas...), "\n")
	}
	return a.Seats == b.Seats && text(a) == text(b)
}

// TestRestore: which changes of bootstrap objects a Keeper takes back.
func TestRestore(t *testing.T) {
	shares := func(n int32) func(*level) {
		return func(l *level) { l.Spec.Limited.NominalConcurrencyShares = new(n) }
	}
	mark := func(value string) func(*level) {
		return func(l *level) { l.Annotations = map[string]string{annotation: value, "mine": "x"} }
	}
	unmark := func(l *level) { l.Annotations = nil }
	for name, test := range map[string]struct {
		object string
		edits  []func(*level)
		// shares and marked are what is there two minutes later.
		shares int32
		marked string
	}{
		"suggested, marked":                     {"system", []func(*level){shares(1)}, 30, "true"},
		"suggested, not marked":                 {"system", []func(*level){unmark}, 30, "true"},
		"suggested, changed and not marked":     {"system", []func(*level){func(l *level) { unmark(l); shares(1)(l) }}, 1, "false"},
		"suggested, changed and marked false":   {"system", []func(*level){func(l *level) { mark("false")(l); shares(1)(l) }}, 1, "false"},
		"suggested, changed and marked badly":   {"system", []func(*level){func(l *level) { mark("maybe")(l); shares(1)(l) }}, 1, "false"},
		"suggested, changed and marked true":    {"system", []func(*level){func(l *level) { mark("True")(l); shares(1)(l) }}, 30, "True"},
		"suggested, marked false, then true":    {"system", []func(*level){func(l *level) { mark("false")(l); shares(1)(l) }, mark("true")}, 30, "true"},
		"mandatory, changed and marked false":   {"catch-all", []func(*level){func(l *level) { mark("false")(l); shares(1)(l) }}, 5, "true"},
		"mandatory, changed and not marked":     {"catch-all", []func(*level){func(l *level) { unmark(l); shares(1)(l) }}, 5, "true"},
		"another one, changed and marked false": {"team", []func(*level){func(l *level) { mark("false")(l); shares(1)(l) }}, 1, "false"},
		"another one, not marked":               {"team", []func(*level){shares(1)}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if _, err := w.levels.Create(t.Context(), newLevel("team")); err != nil {
					t.Fatal(err)
				}
				w.keep(0)
				after(2 * time.Second)
				for _, edit := range test.edits {
					w.levels.user(t, test.object, edit)
				}
				after(2 * time.Minute)
				l, ok := w.levels.get(test.object)
				if !ok {
					t.Fatal("it is gone")
				}
				if got := *l.Spec.Limited.NominalConcurrencyShares; got != test.shares || l.Annotations[annotation] != test.marked {
					t.Errorf("shares %d and annotations %v, want %d and %q", got, l.Annotations, test.shares, test.marked)
				}
			})
		})
	}
}

// TestExemptIsTheUsers: the user may change what the exempt level lends, and nothing
// else of it.
func TestExemptIsTheUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		to, _ := w.keep(0)
		after(2 * time.Second)
		w.levels.user(t, "exempt", func(l *level) {
			l.Spec.Exempt.NominalConcurrencyShares, l.Spec.Exempt.LendablePercent = new(int32(10)), new(int32(50))
		})
		after(2 * time.Minute)
		l, _ := w.levels.get("exempt")
		if *l.Spec.Exempt.NominalConcurrencyShares != 10 || *l.Spec.Exempt.LendablePercent != 50 {
			t.Errorf("restored to %+v", l.Spec.Exempt)
		}
		config, _ := to.have()
		i := slices.IndexFunc(config.Levels, func(l flowcontrol.Level) bool { return l.Name == "exempt" })
		if config.Levels[i].Shares != 10 || config.Levels[i].LendablePercent != 50 {
			t.Errorf("configured %+v", config.Levels[i])
		}
		w.levels.user(t, "exempt", func(l *level) { l.Spec.Exempt = nil })
		after(2 * time.Minute)
		if l, _ := w.levels.get("exempt"); l.Spec.Exempt == nil {
			t.Error("not restored")
		}
	})
}

// TestDeleted: what a user deletes comes back, mandatory objects at once; what is no
// longer suggested goes.
func TestDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old, kept := newSchema("old", "exempt"), newSchema("kept", "exempt")
		old.Annotations, kept.Annotations = map[string]string{annotation: "true"}, map[string]string{annotation: "false"}
		for _, s := range []*flowSchema{old, kept, newSchema("mine", "exempt")} {
			if _, err := w.schemas.Create(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		w.keep(0)
		after(2 * time.Second)
		if _, ok := w.schemas.get("old"); ok {
			t.Error("an object that is no longer suggested is there")
		}
		for _, name := range []string{"kept", "mine"} {
			if _, ok := w.schemas.get(name); !ok {
				t.Errorf("%s is gone", name)
			}
		}
		for _, name := range []string{"catch-all", "probes"} {
			if err := w.schemas.Delete(t.Context(), "", name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		after(time.Second)
		if _, ok := w.schemas.get("catch-all"); !ok {
			t.Error("a mandatory schema is missing")
		}
		if _, ok := w.schemas.get("probes"); ok {
			t.Error("a suggested schema came back before the minute was over")
		}
		after(time.Minute)
		if s, ok := w.schemas.get("probes"); !ok || condition(s) == "" {
			t.Error("a suggested schema is missing or has no condition")
		}
	})
}

// TestDangling follows a schema whose level is missing, comes, is broken and goes.
func TestDangling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		to, _ := w.keep(0)
		after(2 * time.Second)
		mine := newSchema("mine", "team")
		mine.Status.Conditions = []flowcontrolv1.FlowSchemaCondition{{Type: "Other", Status: "True"}}
		if _, err := w.schemas.Create(t.Context(), mine); err != nil {
			t.Fatal(err)
		}
		want := func(what string, exists bool) {
			t.Helper()
			after(time.Second)
			s, _ := w.schemas.get("mine")
			text := `True NotFound: This FlowSchema references the PriorityLevelConfiguration object named "team" but there is no such object`
			if exists {
				text = `False Found: This FlowSchema references the PriorityLevelConfiguration object named "team" and it exists`
			}
			if got := condition(s); got != text || len(s.Status.Conditions) != 2 {
				t.Errorf("%s: the conditions are %v, want 2, with %q", what, s.Status.Conditions, text)
			}
			config, _ := to.have()
			if used := slices.ContainsFunc(config.Schemas, func(s flowcontrol.Schema) bool { return s.Name == "mine" }); used != exists {
				t.Errorf("%s: used %v", what, used)
			}
		}
		want("missing", false)
		if _, err := w.levels.Create(t.Context(), newLevel("team")); err != nil {
			t.Fatal(err)
		}
		want("created", true)
		w.levels.user(t, "team", func(l *level) { l.Spec.Limited = nil })
		want("broken", false)
		w.levels.user(t, "team", func(l *level) { l.Spec = newLevel("team").Spec })
		want("mended", true)
		if err := w.levels.Delete(t.Context(), "", "team", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		want("deleted", false)
	})
}

// TestFailingWrites: requests are classified while nothing can be written, writes
// are repeated with a backoff, and all is there soon after they succeed.
func TestFailingWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.levels.setFail(errors.New("no space"))
		w.schemas.setFail(errors.New("no space"))
		to, _ := w.keep(0)
		after(time.Hour)
		if config, times := to.have(); times != 1 || !sameConfig(config, flowcontrol.Mandatory(600)) {
			t.Errorf("configured %d times", times)
		}
		// Nine passes with growing waits and one a minute, each with 8 levels.
		if _, n, _ := w.levels.seen(""); n < 8*40 || n > 8*70 {
			t.Errorf("%d writes of levels were tried in an hour", n)
		}
		// A change by another client is followed and repeats no write early.
		_, before, _ := w.levels.seen("")
		for i := range 10 {
			w.levels.setFail(nil)
			if _, err := w.levels.Create(t.Context(), newLevel(fmt.Sprint("team-", i))); err != nil {
				t.Fatal(err)
			}
			w.levels.setFail(errors.New("no space"))
			after(time.Second)
		}
		if _, times := to.have(); times != 11 {
			t.Errorf("configured %d times", times)
		}
		if _, n, _ := w.levels.seen(""); n-before > 8 {
			t.Errorf("%d writes of levels were tried in ten seconds", n-before)
		}
		w.levels.setFail(nil)
		w.schemas.setFail(nil)
		for i := range 10 {
			if err := w.levels.Delete(t.Context(), "", fmt.Sprint("team-", i), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		after(2 * time.Minute)
		if config, _ := to.have(); !sameConfig(config, flowcontrol.Default(600)) {
			t.Errorf("configuration %+v", config)
		}
	})
}

// TestCoalesced: changes that come together are one configuration.
func TestCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		to, _ := w.keep(0)
		after(2 * time.Second)
		_, before := to.have()
		for i := range 1000 {
			if _, err := w.levels.Create(t.Context(), newLevel(fmt.Sprint("team-", i))); err != nil {
				t.Fatal(err)
			}
			after(time.Millisecond)
		}
		after(time.Second)
		if config, times := to.have(); times-before > 25 || len(config.Levels) != 1008 {
			t.Errorf("configured %d times in a second, %d levels", times-before, len(config.Levels))
		}
	})
}

// TestServersAgree: several servers, whose caches are behind, make every object and
// write every status about once.
func TestServersAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range 5 {
			w.keep(time.Second)
		}
		after(5 * time.Minute)
		for _, s := range w.schemas.list() {
			if !strings.HasPrefix(condition(s), "False Found") {
				t.Errorf("the schema %s has the condition %q, want it to begin with %q", s.Name, condition(s), "False Found")
			}
		}
		// A server with an old copy may have found a level missing.
		if n := w.writes(); n < 8+11+11 || n > 8+11+5*11 {
			t.Errorf("%d writes", n)
		}
		// About 30. Without a backoff there are 90 and more.
		if _, _, n := w.schemas.seen(""); n > 60 {
			t.Errorf("%d conflicts", n)
		}
		before := w.writes()
		after(time.Hour)
		if n := w.writes() - before; n > 0 {
			t.Errorf("%d writes for nothing", n)
		}
	})
}

// TestFight: a server that insists on another status does not cause a write for each
// of its own.
func TestFight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.keep(0)
		after(2 * time.Second)
		start, foes := time.Now(), 0
		for time.Since(start) < time.Hour {
			w.schemas.user(t, "probes", func(*flowSchema) {}) // another version
			s, _ := w.schemas.get("probes")
			s = s.DeepCopy()
			s.Status.Conditions[0].Status = "True"
			if _, err := w.schemas.UpdateStatus(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			foes++
			after(time.Second)
		}
		writes, _, _ := w.schemas.seen("status probes")
		writes -= foes
		if writes < 60 || writes > 6*60 {
			t.Errorf("%d writes in an hour against %d", writes, foes)
		}
		// The end of the pause, and the pass after it.
		after(3 * time.Minute)
		if s, _ := w.schemas.get("probes"); !strings.HasPrefix(condition(s), "False Found") {
			t.Errorf("at the end: %s", condition(s))
		}
	})
}

// TestNotSynced: nothing is configured or written before both caches are complete.
func TestNotSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		to := &target{t: t}
		config := w.config(0, to)
		late := w.schemas.cache(t, 0)
		late.synced = make(chan struct{})
		config.Schemas = late
		k, err := objects.NewKeeper(config)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- k.Run(t.Context()) }()
		after(time.Hour)
		if _, times := to.have(); times > 0 || w.writes() > 0 {
			t.Errorf("configured %d times, %d writes", times, w.writes())
		}
		close(late.synced)
		<-k.Ready()
		if _, times := to.have(); times == 0 || len(w.schemas.list()) != 11 {
			t.Errorf("ready and configured %d times", times)
		}
	})
}

func TestKeeperConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, change := range map[string]func(*objects.KeeperConfig){
			"KeeperConfig.Levels ":       func(c *objects.KeeperConfig) { c.Levels = nil },
			"KeeperConfig.Schemas ":      func(c *objects.KeeperConfig) { c.Schemas = nil },
			"KeeperConfig.LevelClient ":  func(c *objects.KeeperConfig) { c.LevelClient = nil },
			"KeeperConfig.SchemaClient ": func(c *objects.KeeperConfig) { c.SchemaClient = nil },
			"KeeperConfig.Target ":       func(c *objects.KeeperConfig) { c.Target = nil },
			"KeeperConfig.Seats: ":       func(c *objects.KeeperConfig) { c.Seats = 0 },
		} {
			config := newWorld(t).config(0, &target{t: t})
			change(&config)
			if _, err := objects.NewKeeper(config); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want an error with %q", err, want)
			}
		}
	})
}
