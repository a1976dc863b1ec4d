package compat

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/compat/convergence"
	"github.com/planekit/planekit/compat/stock"
)

// TestConvergence: with the stock controllers over planekit's API server, and with planekit's
// controllers over both servers, the same manifests have the same result as with the stock
// controllers over a stock kube-apiserver.
func TestConvergence(t *testing.T) {
	bin, err := stock.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sides := []side{
		{name: "reference", server: stockServer(bin), controllers: stockControllers(bin)},
		{
			name: "kube-controller-manager", server: convergence.OurServer, controllers: stockControllers(bin),
			client: "kube-controller-manager", shows: "its controllers over our API server make of the same manifests what they make over a stock kube-apiserver, " +
				"step by step: objects with status, conditions and events",
		},
		{
			name: "controllers", server: stockServer(bin), controllers: convergence.OurControllers,
			client: "kube-apiserver", shows: "our controllers over a stock kube-apiserver make of the same manifests what the stock ones make, in the same way",
		},
		{
			name: "both", server: convergence.OurServer, controllers: convergence.OurControllers,
			client: "kube-controller-manager", shows: "our controllers over our API server make of the same manifests what it makes over a stock kube-apiserver",
		},
	}
	scenarios := slices.Concat(convergence.Deployments(), convergence.Jobs(), convergence.Others(), convergence.Mirrors(), convergence.Replications(), convergence.Autoscalers())
	var reference []convergence.Played
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			if side.client != "" {
				shows(t, side.client, side.shows)
			}
			played := side.play(t, scenarios)
			if reference == nil {
				reference = played
			}
			side.playAgain(t, scenarios, played, reference)
			sides[0].playAgain(t, scenarios, reference, played) // it may be the odd one
			for i, scenario := range scenarios {
				t.Run(scenario.Name, func(t *testing.T) {
					if diff := difference(scenario, played[i], reference[i]); diff != "" {
						t.Error(diff)
					}
				})
			}
		})
	}
}

// side is an API server with controllers, and its row in the table.
type side struct {
	name, client, shows string
	server              func(testing.TB) string
	controllers         func(testing.TB, string)
}

func (s *side) play(t *testing.T, scenarios []convergence.Scenario) []convergence.Played {
	kubeconfig := s.server(t)
	// The watches end before the server does.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	made, err := convergence.NewSide(ctx, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	s.controllers(t, kubeconfig)
	return made.Run(ctx, scenarios)
}

// playAgain plays the scenarios that differ from the reference once more, on a server of their own,
// and puts the results in played. Controllers, the stock ones among them, act on what their
// informers show; on a busy machine one of them may be behind another, so that, say, a pod is made
// and deleted before those that exist are adopted. What is not alike differs each time.
func (s *side) playAgain(t *testing.T, scenarios []convergence.Scenario, played, reference []convergence.Played) {
	var again []convergence.Scenario
	var places []int
	for i, scenario := range scenarios {
		if diff := difference(scenario, played[i], reference[i]); diff != "" {
			t.Logf("%s is played again: %s", scenario.Name, diff)
			again, places = append(again, scenario), append(places, i)
		}
	}
	if len(again) == 0 {
		return
	}
	for i, result := range s.play(t, again) {
		played[places[i]] = result
	}
}

// difference is how the result of a scenario differs from the reference, or empty.
func difference(scenario convergence.Scenario, played, reference convergence.Played) string {
	var all []string
	if played.Err != nil {
		all = append(all, played.Err.Error())
	}
	steps := []string{"namespace"}
	for _, step := range scenario.Steps {
		steps = append(steps, step.Name)
	}
	for i := range min(len(played.Steps), len(reference.Steps)) {
		if diff := played.Steps[i].Diff(reference.Steps[i]); diff != "" {
			all = append(all, fmt.Sprintf("after %q:\n%s", steps[i], diff))
		}
	}
	return strings.Join(all, "\n")
}

func stockServer(bin string) func(testing.TB) string {
	return func(t testing.TB) string {
		// Our controllers watch all kinds that our server has.
		return stock.NewServer(t, bin, "--feature-gates", "ClusterTrustBundle=true",
			"--runtime-config", "certificates.k8s.io/v1beta1/clustertrustbundles=true").Kubeconfig
	}
}

func stockControllers(bin string) func(testing.TB, string) {
	return func(t testing.TB, kubeconfig string) {
		stock.NewManager(t, bin, stock.ManagerConfig{
			Kubeconfig: kubeconfig, Controllers: convergence.StockControllers, CA: convergence.Authority,
		}, "--horizontal-pod-autoscaler-sync-period", convergence.AutoscalingPeriod.String())
	}
}
