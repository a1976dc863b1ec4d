//go:build kubelets

package compat

import (
	"os"
	"strings"
	"testing"

	"github.com/planekit/planekit/compat/kubelets"
	"github.com/planekit/planekit/compat/stock"
)

// TestKubelets: our kubelet under a stock control plane, and the stock kubelet under ours, make of
// the same pods what the stock kubelet makes of them under a stock control plane. Two runs of one
// kubelet can differ in what is seen at one moment, so that this test is not part of make test.
func TestKubelets(t *testing.T) {
	bin, err := stock.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	documented, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range kubelets.Known() {
		if !strings.Contains(string(documented), d.Why) {
			t.Errorf("%s does not say: %s", document, d.Why)
		}
	}
	scenarios := kubelets.Scenarios()
	var reference map[string]kubelets.Result
	for _, side := range []struct {
		name string
		kubelets.Side
	}{
		{name: "reference", Side: kubelets.Side{Server: kubelets.StockServer, Kubelet: kubelets.StockKubelet}},
		{name: "kubelet", Side: kubelets.Side{Server: kubelets.StockServer, Kubelet: kubelets.OurKubelet}},
		{name: "server", Side: kubelets.Side{Server: kubelets.OurServer, Kubelet: kubelets.StockKubelet}},
	} {
		t.Run(side.name, func(t *testing.T) {
			results := kubelets.Run(t, bin, side.Side, scenarios, reference)
			if reference == nil {
				reference = results
			}
			for _, s := range scenarios {
				t.Run(s.Name, func(t *testing.T) {
					if err := results[s.Name].Err; err != nil {
						t.Errorf("%v; it is:\n%s", err, results[s.Name].Reached)
					}
					if diff := results[s.Name].Diff(s.Name, reference[s.Name]); diff != "" {
						t.Errorf("differs from the stock kubelet:\n%s", diff)
					}
				})
			}
		})
	}
}
