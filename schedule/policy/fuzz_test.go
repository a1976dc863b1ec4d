package policy_test

import (
	"testing"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/policy"
)

// fuzz checks that a decoder accepts only files whose profiles can be made and decide.
func fuzz(f *testing.F, decode func([]byte) (*policy.File, error)) {
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := decode(data)
		if (file == nil) != (err != nil) {
			t.Fatalf("file %v, error %v", file, err)
		}
		if err != nil {
			return
		}
		parts, _ := parts()
		profiles, err := file.Profiles(parts)
		if err != nil || len(profiles) == 0 {
			t.Fatalf("%d profiles, error %v", len(profiles), err)
		}
		s := newState(t, file)
		for _, p := range profiles {
			pod := podWith("new", "", amounts("500m", "1Gi"), nil)
			pod.Spec.SchedulerName = p.Name
			for _, n := range s.Explain(schedule.NewPodInfo(pod)) {
				if n.Total < 0 {
					t.Fatalf("%s has the score %d", n.Node, n.Total)
				}
			}
		}
	})
}

func FuzzDecodePolicy(f *testing.F) {
	for _, text := range []string{
		"", "predicates: [{name: HostName}]\npriorities: [{name: MostRequestedPriority, weight: 2}]",
		ratio("{shape: [{utilization: 50, score: 1}], resources: [{name: cpu, weight: 3}]}"),
		"extenders: [{urlPrefix: 'http://x', BindVerb: b, httpTimeout: 1, managedResources: [{name: a.b/c, ignoredByScheduler: true}]}]",
		"hardPodAffinitySymmetricWeight: 1\nalwaysCheckAllPredicates: true",
	} {
		f.Add([]byte(policyHead + text))
	}
	fuzz(f, policy.DecodePolicy)
}

func FuzzDecodeConfiguration(f *testing.F) {
	for _, text := range []string{
		configHead, configHead + "parallelism: 1\nleaderElection: {leaderElect: true}\npodMaxBackoffSeconds: 10",
		plugins("multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}, score: {enabled: [{name: ImageLocality, weight: 3}]}"),
		args("NodeResourcesFit", "{ignoredResources: [a.b/c], scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 3}]}}"),
		args("NodeAffinity", "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}"),
		args("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}"),
		extenders("{urlPrefix: 'http://x', filterVerb: f, tlsConfig: {insecure: true}}"),
	} {
		f.Add([]byte(text))
	}
	fuzz(f, policy.DecodeConfiguration)
}
