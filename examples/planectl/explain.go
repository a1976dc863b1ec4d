package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client/printers"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/schedule"
)

// explanation is the output of explain-scheduling as JSON or YAML.
type explanation struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Message says why the pod fits no node, without a look at preemption; empty if it fits one.
	Message string `json:"message,omitempty"`
	// Weights has the weight of each priority in the total.
	Weights map[string]int64 `json:"weights"`
	Nodes   []nodeVerdict    `json:"nodes"`
}

type nodeVerdict struct {
	Node string `json:"node"`
	Fits bool   `json:"fits"`
	// Predicate is the first one that refuses the node.
	Predicate string   `json:"predicate,omitempty"`
	Reasons   []string `json:"reasons,omitempty"`
	// Scores and Total are missing where there is no choice between nodes.
	Scores map[string]int64 `json:"scores,omitempty"`
	Total  *int64           `json:"total,omitempty"`
}

func (c *cli) explainCommand() *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:   "explain-scheduling POD",
		Short: "Show what the default scheduler makes of each node for a pod",
		Long: `Show what the default scheduler makes of each node for a pod: why it refuses the node, or the score of
each priority, from 0 to 100, and their weighted sum. A pod that runs is looked at as if it had no node yet.

The command reads the cluster with your own permissions, and decides as the default profile does.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch output {
			case "", "json", "yaml":
			default:
				return badFormat(output, "json,yaml")
			}
			if len(args) != 1 {
				return &usageError{cmd, "you must specify the name of one pod"}
			}
			return c.explain(cmd, args[0], output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "output format: json or yaml")
	return cmd
}

func (c *cli) explain(cmd *cobra.Command, name, output string) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	defer server.Close()
	pod, err := typed.Pods(server).Get(cmd.Context(), c.namespace, name)
	if err != nil {
		return err
	}
	p, err := c.readProfile(cmd.Context(), server)
	if err != nil {
		return err
	}
	if name := pod.Spec.SchedulerName; name != corev1.DefaultSchedulerName {
		c.warn(fmt.Sprintf("the pod has the scheduler %s, which may decide otherwise", name))
	}
	e, list := p.explain(pod)
	if output != "" {
		return c.printExplanation(output, e)
	}
	if err := printers.NewTable(c.Out, printers.TableOptions{}).Print(explanationTable(p.priorities, list)); err != nil {
		return err
	}
	if e.Message != "" {
		_, err = fmt.Fprintln(c.Out, e.Message)
	}
	return err
}

// explain explains a decision about a pod, also as the list of the scheduler.
func (p *profile) explain(pod *corev1.Pod) (*explanation, []schedule.NodeExplanation) {
	e := &explanation{Namespace: pod.Namespace, Pod: pod.Name, Weights: make(map[string]int64)}
	for _, w := range p.priorities {
		e.Weights[w.Name()] = max(1, w.Weight)
	}
	waiting := *pod
	waiting.Spec.NodeName = ""
	info, s := schedule.NewPodInfo(&waiting), p.state(pod)
	list := s.Explain(info)
	for _, n := range list {
		v := nodeVerdict{Node: n.Node, Fits: n.Verdict.OK(), Predicate: n.Predicate, Reasons: n.Verdict.Reasons}
		if n.Scores != nil {
			v.Scores, v.Total = make(map[string]int64), new(n.Total)
			for i, w := range p.priorities {
				v.Scores[w.Name()] = n.Scores[i]
			}
		}
		e.Nodes = append(e.Nodes, v)
	}
	if _, unfit := s.Decide(info); unfit != nil {
		e.Message = unfit.Error()
	}
	return e, list
}

func (c *cli) printExplanation(output string, e *explanation) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	object, err := printers.Parse(text)
	if err != nil {
		return err
	}
	return c.printObject(output, object)
}

// explanationTable has a row for each node and a column for each priority, with its weight where that is not 1.
func explanationTable(priorities []schedule.Weighted, list []schedule.NodeExplanation) *metav1.Table {
	t := &metav1.Table{}
	column := func(name string) {
		t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	column("Node")
	column("Verdict")
	for _, w := range priorities {
		name := w.Name()
		if w.Weight > 1 {
			name = fmt.Sprintf("%s*%d", name, w.Weight)
		}
		column(name)
	}
	column("Total")
	for _, n := range list {
		verdict := "fits"
		if !n.Verdict.OK() {
			verdict = n.Predicate + ": " + strings.Join(n.Verdict.Reasons, ", ")
		}
		cells := []any{n.Node, verdict}
		for i := range priorities {
			if n.Scores == nil {
				cells = append(cells, "-")
			} else {
				cells = append(cells, n.Scores[i])
			}
		}
		if n.Scores == nil {
			cells = append(cells, "-")
		} else {
			cells = append(cells, n.Total)
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: cells})
	}
	return t
}
