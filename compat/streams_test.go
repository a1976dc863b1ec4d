//go:build kubelets

package compat

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/planekit/planekit/compat/kubelets"
	"github.com/planekit/planekit/compat/stock"
)

// TestStreams: clients see the same of exec, attach, port-forward and followed logs on our kubelet as
// on the stock kubelet, however the streams are used and whichever end of them ends. STREAMS is a
// regular expression for the names of cases.
func TestStreams(t *testing.T) {
	bin, err := stock.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	documented, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range kubelets.KnownStreams() {
		if !strings.Contains(string(documented), d.Why) {
			t.Errorf("%s does not say: %s", document, d.Why)
		}
	}
	wanted, err := regexp.Compile(os.Getenv("STREAMS"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []kubelets.StreamCase
	for _, c := range kubelets.StreamCases() {
		if wanted.MatchString(c.Name) {
			cases = append(cases, c)
		}
	}
	var reference map[string]string
	for _, side := range []struct {
		name string
		side kubelets.StreamSide
	}{
		{"reference", kubelets.StreamReference},
		{"kubelet", kubelets.StreamKubelet},
	} {
		t.Run(side.name, func(t *testing.T) {
			results := kubelets.RunStreams(t, bin, side.side, cases, reference)
			if reference == nil {
				reference = results
			}
			for _, c := range cases {
				t.Run(c.Name, func(t *testing.T) {
					if diff := kubelets.DiffStreams(c.Name, reference[c.Name], results[c.Name]); diff != "" {
						t.Errorf("%s differs from the stock kubelet:\n%s\nit is:\n%s", c.Name, diff, results[c.Name])
					}
					if strings.Contains(results[c.Name], kubelets.NotRun) {
						t.Errorf("%s = %s, want a case that runs", c.Name, results[c.Name])
					}
				})
			}
		})
	}
}
