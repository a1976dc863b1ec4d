package objects_test

import (
	"fmt"

	"github.com/planekit/planekit/apiserver/flowcontrol/objects"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A schema whose level does not exist is left out, and the mandatory objects are
// added.
func Example() {
	team := &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "team"},
		Spec: flowcontrolv1.FlowSchemaSpec{
			MatchingPrecedence:         1000,
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "team"},
		},
	}
	config, skipped := objects.Config(nil, []*flowcontrolv1.FlowSchema{team}, 600)
	for _, s := range config.Schemas {
		fmt.Println(s.Name, "->", s.Level)
	}
	fmt.Println(skipped)
	// Output:
	// catch-all -> catch-all
	// exempt -> exempt
	// []
}
