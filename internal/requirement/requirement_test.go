package requirement_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/requirement"
)

func TestFields(t *testing.T) {
	for selector, want := range map[string]string{
		"":                                "[]",
		"a=b":                             "[{a In [b]}]",
		"a==b,c!=d":                       "[{a In [b]} {c NotIn [d]}]",
		"spec.nodeName=n,status.phase=":   "[{spec.nodeName In [n]} {status.phase In []}]",
		`metadata.name=a\,b`:              "[{metadata.name In [a,b]}]",
		"a":                               "error",
		"a in (b)":                        "error",
		"spec.nodeName=x,spec.nodeName=y": "[{spec.nodeName In [x]} {spec.nodeName In [y]}]",
	} {
		if got := said(requirement.Fields(selector)); got != want {
			t.Errorf("%s: %s, want %s", selector, got, want)
		}
	}
}

func TestLabels(t *testing.T) {
	for selector, want := range map[string]string{
		"":                  "[]",
		"a=b":               "[{a In [b]}]",
		"a in (c,b),!d":     "[{a In [b c]} {d DoesNotExist []}]",
		"a,b notin (c)":     "[{a Exists []} {b NotIn [c]}]",
		"a!=b":              "[{a NotIn [b]}]",
		"generation>3,a==b": "[{a In [b]}]",
		"generation<3":      "[]",
		"a in b":            "error",
	} {
		if got := said(requirement.Labels(selector)); got != want {
			t.Errorf("%s: %s, want %s", selector, got, want)
		}
	}
}

func said(r []authz.Requirement, err error) string {
	if err != nil {
		return "error"
	}
	return fmt.Sprint(r)
}

func FuzzSelectors(f *testing.F) {
	f.Add("a=b,c!=d")
	f.Add("a in (b,c),!d,e>1")
	f.Fuzz(func(t *testing.T, selector string) {
		fields, err := requirement.Fields(selector)
		if slices.ContainsFunc(fields, func(r authz.Requirement) bool { return len(r.Values) != 1 }) || err != nil && fields != nil {
			t.Error(fields, err)
		}
		labels, err := requirement.Labels(selector)
		for _, r := range labels {
			if bare := r.Operator == authz.Exists || r.Operator == authz.DoesNotExist; bare != (len(r.Values) == 0) || err != nil {
				t.Error(r, err)
			}
		}
	})
}
