package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/plugins"
)

// Curfew is a plugin of the program's own: nothing is made while the gate is shut.
type Curfew struct{ Shut bool }

func (c Curfew) Validate(_ context.Context, r *admission.Request) error {
	if c.Shut && r.Operation == admission.Create {
		return admission.Forbidden(r, errors.New("come back tomorrow"))
	}
	return nil
}

func Example() {
	config := plugins.Config{
		Table: []plugins.Plugin{
			{Name: "Curfew", New: func(config []byte) (any, error) { return Curfew{Shut: string(config) == `"shut"`}, nil }},
			// As they are in a program: made from local copies.
			{Name: "ResourceQuota", New: func([]byte) (any, error) { return Curfew{}, nil }},
			{Name: "AlwaysPullImages", New: func([]byte) (any, error) { return Curfew{}, nil }},
			{Name: "Priority", New: func([]byte) (any, error) { return Curfew{}, nil }},
		},
		Enable:  []string{"AlwaysPullImages"},
		Disable: []string{"Priority"},
	}
	var err error
	if config.Configuration, err = plugins.Parse([]byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: Curfew
  configuration: shut
`), "/etc/admission.yaml", nil); err != nil {
		fmt.Println(err)
		return
	}
	names, err := plugins.Names(config)
	fmt.Println(names, err)
	chain, err := plugins.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(chain.Validate(context.Background(), &admission.Request{
		Operation: admission.Create, Name: "web", Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"},
	}))
	// Output:
	// [AlwaysPullImages Curfew ResourceQuota] <nil>
	// pods "web" is forbidden: come back tomorrow
}

// step notes that it ran.
type step struct {
	name string
	ran  *[]string
}

func (s step) Mutate(context.Context, *admission.Request) error {
	*s.ran = append(*s.ran, "mutate "+s.name)
	return nil
}

// both mutates and validates.
type both struct{ step }

func (s both) Validate(context.Context, *admission.Request) error {
	*s.ran = append(*s.ran, "validate "+s.name)
	return nil
}

// table has a plugin that only mutates for each name.
func table(ran *[]string, names ...string) []plugins.Plugin {
	var t []plugins.Plugin
	for _, name := range names {
		t = append(t, plugins.Plugin{Name: name, New: func([]byte) (any, error) { return step{name, ran}, nil }})
	}
	return t
}

func TestOrder(t *testing.T) {
	var ran []string
	names := plugins.Order()
	slices.Reverse(names)
	list := table(&ran, append([]string{"Zoo", "Ant"}, names...)...)
	list = append(list, plugins.Plugin{Name: "Mole", Off: true, New: func([]byte) (any, error) { return both{step{"Mole", &ran}}, nil }})

	chain, err := plugins.New(plugins.Config{Table: list})
	if err != nil {
		t.Fatal(err)
	}
	run := func(chain admission.Chain) []string {
		ran = nil
		if err := chain.Mutate(t.Context(), &admission.Request{}); err != nil {
			t.Fatal(err)
		}
		if err := chain.Validate(t.Context(), &admission.Request{}); err != nil {
			t.Fatal(err)
		}
		return ran
	}
	var want []string
	for _, name := range plugins.Order() {
		if name == "MutatingAdmissionPolicy" {
			want = append(want, "mutate Zoo", "mutate Ant")
		}
		if slices.Contains(plugins.DefaultOn(), name) {
			want = append(want, "mutate "+name)
		}
	}
	if got := run(chain); !slices.Equal(got, want) {
		t.Errorf("by default %v, want %v", got, want)
	}

	chain, err = plugins.New(plugins.Config{Table: list, Enable: []string{"Mole", "AlwaysDeny", "InitialResources"},
		Disable: slices.Concat(plugins.DefaultOn(), []string{"Zoo"})})
	if err != nil {
		t.Fatal(err)
	}
	want = []string{"mutate InitialResources", "mutate Ant", "mutate Mole", "mutate AlwaysDeny", "validate Mole"}
	if got := run(chain); !slices.Equal(got, want) {
		t.Errorf("enabled %v, want %v", got, want)
	}
}

func TestWrongNames(t *testing.T) {
	list := table(new([]string), "Priority", "Own")
	parse := func(text string) plugins.Configuration {
		c, err := plugins.Parse([]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"+text), "f", nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, test := range map[string]struct {
		config plugins.Config
		want   []string
	}{
		"unknown": {plugins.Config{Table: list, Enable: []string{"Prority", "PodSecurity"}, Disable: []string{"Onw"}}, []string{
			`enable-admission-plugins plugin "Prority" is unknown`, `enable-admission-plugins plugin "PodSecurity" is unknown`,
			`disable-admission-plugins plugin "Onw" is unknown`}},
		"disable what is not there anyway": {plugins.Config{Table: list, Disable: []string{"PodSecurity"}}, nil},
		"both": {plugins.Config{Table: list, Enable: []string{"Own", "Priority", "Own"}, Disable: []string{"Priority", "Own"}},
			[]string{"[Own Priority] in enable-admission-plugins and disable-admission-plugins overlapped"}},
		"twice":   {plugins.Config{Table: append(table(nil, "Own"), list...)}, []string{`admission plugin "Own" was registered twice`}},
		"nothing": {plugins.Config{Table: []plugins.Plugin{{Name: "X"}}}, []string{`admission plugin "X" has no name or no New`}},
		"configuration": {plugins.Config{Table: list, Configuration: parse("plugins: [{name: PodSecurity, path: x}]")},
			[]string{`configuration is given for the admission plugin "PodSecurity", which is unknown`}},
		"enabled twice": {plugins.Config{Table: list, Enable: []string{"Own", "Own"}}, nil},
	} {
		var got []string
		chain, err := plugins.New(test.config)
		if err != nil {
			got = strings.Split(err.Error(), "\n")
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
		if err == nil && len(chain.Mutators) != 2 {
			t.Errorf("%s: %d mutators", name, len(chain.Mutators))
		}
		if _, nameErr := plugins.Names(test.config); (nameErr == nil) != (err == nil) {
			t.Errorf("%s: Names(config) = %v, want an error exactly when New gives one: %v", name, nameErr, err)
		}
	}
}

func TestNoFiles(t *testing.T) {
	config, err := plugins.Parse([]byte(header+"plugins: [{name: Own, path: x}]"), "f", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plugins.New(plugins.Config{Table: table(nil, "Own"), Configuration: config}); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

func TestNewFails(t *testing.T) {
	broken := errors.New("no certificate")
	list := []plugins.Plugin{{Name: "Own", New: func([]byte) (any, error) { return nil, broken }}}
	if _, err := plugins.New(plugins.Config{Table: list}); !errors.Is(err, broken) || err.Error() != `couldn't init admission plugin "Own": no certificate` {
		t.Error(err)
	}
	list[0].New = func([]byte) (any, error) { return 7, nil }
	if _, err := plugins.New(plugins.Config{Table: list}); err == nil || !strings.Contains(err.Error(), `"Own" is a int, which neither`) {
		t.Error(err)
	}
	list[0].New = func([]byte) (any, error) { t.Error("made although it is off"); return nil, nil }
	if _, err := plugins.New(plugins.Config{Table: list, Disable: []string{"Own"}}); err != nil {
		t.Error(err)
	}
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		refuse := errors.New("no")
		config := plugins.Config{
			Table: []plugins.Plugin{{Name: "Slow", New: func([]byte) (any, error) {
				return admission.Chain{
					Mutators: []admission.Mutator{admission.MutatorFunc(func(context.Context, *admission.Request) error {
						time.Sleep(time.Second)
						return nil
					})},
					Validators: []admission.Validator{admission.ValidatorFunc(func(context.Context, *admission.Request) error { return refuse })},
				}, nil
			}}},
			Metrics: plugins.Metrics{Done: func(name string, phase plugins.Phase, op admission.Operation, took time.Duration, err error) {
				told = append(told, fmt.Sprint(name, " ", phase, " ", op, " ", took, " ", err))
			}},
		}
		chain, err := plugins.New(config)
		if err != nil {
			t.Fatal(err)
		}
		r := &admission.Request{Operation: admission.Update}
		if err := chain.Mutate(t.Context(), r); err != nil {
			t.Error(err)
		}
		if err := chain.Validate(t.Context(), r); err != refuse {
			t.Error(err)
		}
		if want := []string{"Slow admit UPDATE 1s <nil>", "Slow validate UPDATE 0s no"}; !slices.Equal(told, want) {
			t.Errorf("Metrics.Done is told %q, want %q", told, want)
		}
	})
}
