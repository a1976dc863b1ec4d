package admission_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/planekit/planekit/admission"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TeamLabel is a plugin: it labels new pods with the team of their namespace
// and refuses those that claim another.
type TeamLabel struct {
	Teams map[string]string // by namespace
}

func (t TeamLabel) Mutate(_ context.Context, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || r.Operation != admission.Create || r.Subresource != "" {
		return nil
	}
	if _, set := pod.Labels["team"]; !set {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, "team", t.Teams[r.Namespace])
	}
	return nil
}

func (t TeamLabel) Validate(_ context.Context, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if ok && r.Subresource == "" && pod.Labels["team"] != t.Teams[r.Namespace] {
		return fmt.Errorf("pods in %s belong to team %s", r.Namespace, t.Teams[r.Namespace])
	}
	return nil
}

func Example() {
	teams := TeamLabel{Teams: map[string]string{"shop": "blue"}}
	chain := admission.Chain{
		Mutators:   []admission.Mutator{teams},
		Validators: []admission.Validator{teams},
	}

	for _, labels := range []map[string]string{nil, {"team": "red"}} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Labels: labels}}
		r := &admission.Request{Operation: admission.Create, Namespace: "shop", Name: "web", Object: pod}
		if err := chain.Mutate(context.Background(), r); err != nil {
			fmt.Println("refused:", err)
			continue
		}
		if err := chain.Validate(context.Background(), r); err != nil {
			fmt.Println("refused:", err)
			continue
		}
		fmt.Println("admitted:", pod.Labels)
	}
	// Output:
	// admitted: map[team:blue]
	// refused: pods in shop belong to team blue
}

func TestChainStopsAtTheFirstRefusal(t *testing.T) {
	var ran []string
	no := errors.New("no")
	step := func(name string, err error) func(context.Context, *admission.Request) error {
		return func(context.Context, *admission.Request) error {
			ran = append(ran, name)
			return err
		}
	}
	inner := admission.Chain{Validators: []admission.Validator{admission.ValidatorFunc(step("d", nil))}}
	chain := admission.Chain{
		Mutators: []admission.Mutator{
			admission.MutatorFunc(step("a", nil)), admission.MutatorFunc(step("b", no)), admission.MutatorFunc(step("c", nil)),
		},
		Validators: []admission.Validator{
			inner, admission.ValidatorFunc(step("e", no)), admission.ValidatorFunc(step("f", nil)),
		},
	}
	if err := chain.Mutate(context.Background(), &admission.Request{}); err != no {
		t.Errorf("mutate: %v", err)
	}
	if err := chain.Validate(context.Background(), &admission.Request{}); err != no {
		t.Errorf("validate: %v", err)
	}
	if !slices.Equal(ran, []string{"a", "b", "d", "e"}) {
		t.Errorf("ran %v", ran)
	}
	if err := (admission.Chain{}).Validate(context.Background(), &admission.Request{}); err != nil {
		t.Errorf("the zero chain refuses: %v", err)
	}
}
