package schedule_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/internal/randomcluster"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/policy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubescheduler "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/gangscheduling"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/imagelocality"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodedeclaredfeatures"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podgrouppodscount"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/schedulinggates"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/topologyaware"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"
)

// configuration returns a KubeSchedulerConfiguration with the given fields.
func configuration(fields map[string]any) string {
	all := map[string]any{"apiVersion": kubescheduler.SchemeGroupVersion.String(), "kind": "KubeSchedulerConfiguration"}
	maps.Copy(all, fields)
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// withProfile returns a file whose only profile has the given fields.
func withProfile(fields map[string]any) string {
	return configuration(map[string]any{"profiles": []any{fields}})
}

// TestDefaultProfile checks that the default profile here is that of kube-scheduler, without the plugins that are
// not supported.
func TestDefaultProfile(t *testing.T) {
	stock, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	file, err := policy.DecodeConfiguration([]byte(configuration(nil)))
	if err != nil {
		t.Fatal(err)
	}
	volumes := volumePredicates(t, randomcluster.New(1))
	profiles, err := file.Profiles(volumeParts(t, randomcluster.New(1)))
	if err != nil {
		t.Fatal(err)
	}
	var predicates, scores, first, wantPredicates, wantScores []string
	for _, p := range profiles[0].Predicates {
		if p.Name() != "Unsupported" {
			predicates = append(predicates, p.Name())
		}
	}
	isVolumes := func(name string) bool {
		return slices.ContainsFunc(volumes, func(p schedule.Predicate) bool { return p.Name() == name })
	}
	for _, w := range profiles[0].Priorities {
		scores = append(scores, fmt.Sprintf("%s*%d", w.Name(), w.Weight))
	}
	scoresOnly := []string{"NodeResourcesBalancedAllocation", "ImageLocality"}
	for _, p := range stock.Profiles[0].Plugins.MultiPoint.Enabled {
		score, ok := compared[p.Name]
		if !ok {
			continue
		}
		switch {
		case isVolumes(p.Name):
			first = append(first, p.Name)
		case !slices.Contains(scoresOnly, p.Name):
			wantPredicates = append(wantPredicates, p.Name)
		}
		if score != "" {
			wantScores = append(wantScores, fmt.Sprintf("%s*%d", score, p.Weight))
		}
	}
	wantPredicates = append(first, wantPredicates...)
	if !slices.Equal(predicates, wantPredicates) || !slices.Equal(scores, wantScores) || profiles[0].Name != stock.Profiles[0].SchedulerName {
		t.Errorf("%v %v, want %v %v", predicates, scores, wantPredicates, wantScores)
	}
}

// points are the extension points with the interface of their plugins.
var points = map[string]reflect.Type{
	"preEnqueue": reflect.TypeFor[fwk.PreEnqueuePlugin](), "queueSort": reflect.TypeFor[fwk.QueueSortPlugin](),
	"preFilter": reflect.TypeFor[fwk.PreFilterPlugin](), "filter": reflect.TypeFor[fwk.FilterPlugin](),
	"postFilter": reflect.TypeFor[fwk.PostFilterPlugin](), "preScore": reflect.TypeFor[fwk.PreScorePlugin](),
	"score": reflect.TypeFor[fwk.ScorePlugin](), "reserve": reflect.TypeFor[fwk.ReservePlugin](),
	"permit": reflect.TypeFor[fwk.PermitPlugin](), "preBind": reflect.TypeFor[fwk.PreBindPlugin](),
	"bind": reflect.TypeFor[fwk.BindPlugin](), "postBind": reflect.TypeFor[fwk.PostBindPlugin](),
	"placementGenerate": reflect.TypeFor[fwk.PlacementGeneratePlugin](), "placementScore": reflect.TypeFor[fwk.PlacementScorePlugin](),
}

// TestPluginsAreKnown checks that each plugin of kube-scheduler is known, at the extension points that it extends.
func TestPluginsAreKnown(t *testing.T) {
	registry := plugins.NewInTreeRegistry()
	for name := range registry {
		kind := kinds[name]
		if kind == nil {
			t.Errorf("the type of %s is not in the table", name)
			continue
		}
		for point, extends := range points {
			_, err := policy.DecodeConfiguration([]byte(withProfile(map[string]any{
				"plugins": map[string]any{point: map[string]any{"enabled": []any{map[string]any{"name": name}}}}})))
			said := fmt.Sprint(err)
			refused := strings.Contains(said, "the plugin does not extend")
			if strings.Contains(said, "no plugin has this name") || refused == kind.Implements(extends) {
				t.Errorf("%s at %s, which it extends: %t: %v", name, point, kind.Implements(extends), err)
			}
		}
	}
}

// kinds are the types of the plugins of kube-scheduler.
var kinds = map[string]reflect.Type{
	names.DefaultBinder: reflect.TypeFor[*defaultbinder.DefaultBinder](), names.DefaultPreemption: reflect.TypeFor[*defaultpreemption.DefaultPreemption](),
	names.DynamicResources: reflect.TypeFor[*dynamicresources.DynamicResources](), names.GangScheduling: reflect.TypeFor[*gangscheduling.GangScheduling](),
	names.ImageLocality: reflect.TypeFor[*imagelocality.ImageLocality](), names.InterPodAffinity: reflect.TypeFor[*interpodaffinity.InterPodAffinity](),
	names.NodeAffinity: reflect.TypeFor[*nodeaffinity.NodeAffinity](), names.NodeDeclaredFeatures: reflect.TypeFor[*nodedeclaredfeatures.NodeDeclaredFeatures](),
	names.NodeName: reflect.TypeFor[*nodename.NodeName](), names.NodePorts: reflect.TypeFor[*nodeports.NodePorts](),
	names.NodeResourcesBalancedAllocation: reflect.TypeFor[*noderesources.BalancedAllocation](), names.NodeResourcesFit: reflect.TypeFor[*noderesources.Fit](),
	names.NodeUnschedulable: reflect.TypeFor[*nodeunschedulable.NodeUnschedulable](), names.NodeVolumeLimits: reflect.TypeFor[*nodevolumelimits.CSILimits](),
	names.PodGroupPodsCount: reflect.TypeFor[*podgrouppodscount.PodGroupPodsCount](), names.PodTopologySpread: reflect.TypeFor[*podtopologyspread.PodTopologySpread](),
	names.PrioritySort: reflect.TypeFor[*queuesort.PrioritySort](), names.SchedulingGates: reflect.TypeFor[*schedulinggates.SchedulingGates](),
	names.TaintToleration: reflect.TypeFor[*tainttoleration.TaintToleration](), names.TopologyPlacementGenerator: reflect.TypeFor[*topologyaware.TopologyPlacement](),
	names.VolumeBinding: reflect.TypeFor[*volumebinding.VolumeBinding](), names.VolumeRestrictions: reflect.TypeFor[*volumerestrictions.VolumeRestrictions](),
	names.VolumeZone: reflect.TypeFor[*volumezone.VolumeZone](),
}

// field is a field of a configuration, or of one of its fields.
type field struct {
	path []string
	kind reflect.Type
}

// fields returns the fields of a struct, down to those that are neither structs nor lists of them.
func fields(kind reflect.Type, path []string) []field {
	var list []field
	for f := range kind.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type == reflect.TypeFor[metav1.TypeMeta]() {
			continue
		}
		if name == "" && f.Anonymous {
			list = append(list, fields(f.Type, path)...)
			continue
		}
		at := append(slices.Clone(path), name)
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice && inner != reflect.TypeFor[[]byte]() {
			if inner.Kind() == reflect.Slice {
				at[len(at)-1] += "[0]"
			}
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner.PkgPath() != reflect.TypeFor[metav1.Duration]().PkgPath() && inner.Name() != "RawExtension" {
			list = append(list, fields(inner, at)...)
		} else {
			list = append(list, field{at, inner})
		}
	}
	return list
}

// special has the values of fields that take no others.
var special = map[string]any{
	"leaderElection.resourceLock": "leases", "leaderElection.leaseDuration": "20s", "podMaxBackoffSeconds": 30,
	"extenders[0].urlPrefix": "http://x", "extenders[0].managedResources[0].name": "example.com/a",
	"extenders[0].tlsConfig.certData": nil, "extenders[0].tlsConfig.keyData": nil, // they go together
	"extenders[0].tlsConfig.certFile": nil, "extenders[0].tlsConfig.keyFile": nil,
	"extenders[0].tlsConfig.caData": "eA==",
}

// acts are the beginnings of the paths of fields that have an effect, which tests of package policy show, and
// of those whose values are refused where they would have none.
var acts = []string{
	"podInitialBackoffSeconds", "podMaxBackoffSeconds", "extenders[0].", "profiles[0].schedulerName", "profiles[0].plugins.",
	"profiles[0].pluginConfig[0].",
}

// TestNoFieldIsSilent checks that each field of a KubeSchedulerConfiguration is known, and has an effect or is named
// in a warning.
func TestNoFieldIsSilent(t *testing.T) {
	all := fields(reflect.TypeFor[kubescheduler.KubeSchedulerConfiguration](), nil)
	if len(all) < 80 {
		t.Fatalf("only %d fields", len(all))
	}
	for _, f := range all {
		path := strings.Join(f.path, ".")
		value, ok := special[path]
		if !ok {
			value = valueOf(f.kind)
		}
		file, err := policy.DecodeConfiguration([]byte(configuration(nest(f.path, value))))
		effect := slices.ContainsFunc(acts, func(begin string) bool { return strings.HasPrefix(path, begin) })
		if err != nil {
			// A plugin called x is refused, and so is a part of an extender.
			if strings.Contains(err.Error(), "unknown field") || !effect {
				t.Errorf("DecodeConfiguration with %s: %v, want no unknown field, and no error unless the field acts", path, err)
			}
			continue
		}
		warned := slices.ContainsFunc(file.Warnings(), func(w string) bool { return strings.HasPrefix(w, path+" has no effect: ") })
		if warned == effect {
			t.Errorf("%s: has an effect: %t, warnings %q", path, effect, file.Warnings())
		}
	}
}

// TestArgumentsAreKnown checks that each field of the arguments of plugins is known.
func TestArgumentsAreKnown(t *testing.T) {
	for plugin, kind := range map[string]reflect.Type{
		names.DefaultPreemption: reflect.TypeFor[kubescheduler.DefaultPreemptionArgs](), names.InterPodAffinity: reflect.TypeFor[kubescheduler.InterPodAffinityArgs](),
		names.NodeAffinity: reflect.TypeFor[kubescheduler.NodeAffinityArgs](), names.NodeResourcesFit: reflect.TypeFor[kubescheduler.NodeResourcesFitArgs](),
		names.NodeResourcesBalancedAllocation: reflect.TypeFor[kubescheduler.NodeResourcesBalancedAllocationArgs](),
		names.PodTopologySpread:               reflect.TypeFor[kubescheduler.PodTopologySpreadArgs](), names.VolumeBinding: reflect.TypeFor[kubescheduler.VolumeBindingArgs](),
	} {
		for _, f := range fields(kind, nil) {
			_, err := policy.DecodeConfiguration([]byte(withProfile(map[string]any{
				"pluginConfig": []any{map[string]any{"name": plugin, "args": nest(f.path, nil)}}})))
			if err != nil && strings.Contains(err.Error(), "unknown field") {
				t.Errorf("DecodeConfiguration with the argument %v of %s: %v, want no unknown field", f.path, plugin, err)
			}
		}
	}
}

// valueOf returns a value of a field that is not the default.
func valueOf(kind reflect.Type) any {
	switch kind.Kind() {
	case reflect.Bool:
		return true
	case reflect.String:
		return "x"
	case reflect.Struct: // a duration
		return "3s"
	}
	return 3
}

// nest returns a value at a path.
func nest(path []string, value any) map[string]any {
	for _, name := range slices.Backward(path) {
		name, list := strings.CutSuffix(name, "[0]")
		if list {
			value = []any{value}
		}
		value = map[string]any{name: value}
	}
	if value == nil {
		return nil
	}
	return value.(map[string]any)
}
