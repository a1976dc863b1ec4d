package schedule_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/planekit/planekit/internal/randomcluster"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/policy"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// stockConfiguration returns a file as kube-scheduler reads it.
func stockConfiguration(text string) (*config.KubeSchedulerConfiguration, error) {
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, err
	}
	c := object.(*config.KubeSchedulerConfiguration)
	c.APIVersion = kind.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(c); err != nil {
		return nil, err
	}
	return c, nil
}

// configuredStock returns kube-scheduler's framework for one profile, with the plugins that are compared.
func configuredStock(t *testing.T, w *randomcluster.Cluster, profile config.KubeSchedulerProfile) *stock {
	t.Helper()
	kept := append(slices.Collect(maps.Keys(compared)), names.PrioritySort, names.DefaultBinder)
	profile.Plugins.MultiPoint.Enabled = slices.DeleteFunc(profile.Plugins.MultiPoint.Enabled, func(p config.Plugin) bool {
		return !slices.Contains(kept, p.Name)
	})
	return newStockOf(t, w, profile)
}

// configuredOurs returns a State with the profile of a file.
func configuredOurs(t *testing.T, w *randomcluster.Cluster, text string) *schedule.State {
	t.Helper()
	file, err := policy.DecodeConfiguration([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := file.Profiles(volumeParts(t, w))
	if err != nil {
		t.Fatal(err)
	}
	s := schedule.NewStateOf(profiles, 1)
	for _, n := range w.Namespaces {
		s.SetNamespace(n)
	}
	for _, n := range w.Nodes {
		s.SetNode(n)
	}
	for _, p := range w.Pods {
		s.SetPod(schedule.NewPodInfo(p))
	}
	return s
}

// configured are profiles with arguments of plugins that change decisions.
var configured = []string{
	`{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 7}, {"name": "memory", "weight": 2}]}}}]}`,
	`{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "RequestedToCapacityRatio", "resources": [{"name": "cpu"}, {"name": "memory", "weight": 3}],
		"requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 2}, {"utilization": 40, "score": 10}, {"utilization": 100, "score": 1}]}}}}]}`,
	`{"pluginConfig": [{"name": "NodeResourcesBalancedAllocation", "args": {"resources": [{"name": "cpu"}, {"name": "memory"}, {"name": "ephemeral-storage"}]}}]}`,
	`{"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 60}}], "plugins": {"score": {"enabled": [{"name": "InterPodAffinity", "weight": 9}]}}}`,
	`{"pluginConfig": [{"name": "InterPodAffinity", "args": {"ignorePreferredTermsOfExistingPods": true}}]}`,
	`{"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": {
		"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}]}]},
		"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-0", "node-2"]}]}}]}}}]}`,
	`{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResourceGroups": ["example.com"]}}]}`,
	`{"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": [
		{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"},
		{"maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}]}}]}`,
	`{"plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}, {"name": "NodePorts"}]}, "score": {"disabled": [{"name": "ImageLocality"}], "enabled": [{"name": "NodeAffinity", "weight": 5}]}}}`,
}

// TestConfiguredDecisions decides about random pods by configured profiles as kube-scheduler does.
func TestConfiguredDecisions(t *testing.T) {
	for i, text := range configured {
		differ := false
		n := 0
		for seed := range seeds(t) {
			if n++; n > max(2, *clusters/10) {
				break
			}
			w := randomcluster.New(seed)
			file := configuration(map[string]any{"profiles": []any{json.RawMessage(text)}})
			c, err := stockConfiguration(file)
			if err != nil {
				t.Fatalf("stockConfiguration with the profile %s: %v", text, err)
			}
			theirs, ours, standard := configuredStock(t, w, c.Profiles[0]), configuredOurs(t, w, file), newOurs(t, w)
			for range podsPerCluster {
				pod := w.Pod()
				want := theirs.judge(t, pod)
				for _, n := range ours.Explain(schedule.NewPodInfo(pod)) {
					v := want[n.Node]
					if n.Predicate != v.predicate || !slices.Equal(n.Verdict.Reasons, v.reasons) || (n.Verdict.Lasting || n.Verdict.All) != v.lasting || n.Total != v.total {
						t.Fatalf("profile %d, cluster %d, %s: %s is\n%+v, but for kube-scheduler\n%+v", i, seed, pod.Name, n.Node, n, v)
					}
				}
				differ = differ || fmt.Sprint(standard.Explain(schedule.NewPodInfo(pod))) != fmt.Sprint(ours.Explain(schedule.NewPodInfo(pod)))
			}
		}
		if !differ {
			t.Errorf("profile %d decides as the default one", i)
		}
	}
}
