package shutdown

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func pod(name string, priority int32, grace int64) *corev1.Pod {
	p := &corev1.Pod{}
	p.Name, p.Spec.Priority, p.Spec.TerminationGracePeriodSeconds = name, &priority, &grace
	return p
}

// text returns groups such as "10s: a(5) b(10)".
func text(groups []Group) string {
	var lines []string
	for _, g := range groups {
		line := g.Wait.String() + ":"
		for _, p := range g.Pods {
			line += fmt.Sprintf(" %s(%d)", p.Name, p.Grace)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

func TestPlan(t *testing.T) {
	without := &corev1.Pod{}
	without.Name = "without"
	pods := []*corev1.Pod{pod("node", 2_000_001_000, 60), pod("low", -5, 60), pod("zero", 0, 5), pod("mid", 99_999, 60), pod("high", 100_000, 60), without}
	for _, test := range []struct {
		config Config
		want   string
	}{
		{Config{}, ""},
		{Config{GracePeriod: 30 * time.Second, CriticalPods: 10 * time.Second}, "20s: low(20) zero(5) mid(20) high(20) without(20), 10s: node(10)"},
		{Config{GracePeriod: 30 * time.Second}, "30s: low(30) zero(5) mid(30) high(30) without(30), 0s: node(0)"},
		{Config{GracePeriod: 1500 * time.Millisecond, CriticalPods: time.Second}, "0s: low(0) zero(0) mid(0) high(0) without(0), 1s: node(1)"},
		{Config{ByPodPriority: []Period{{100_000, 10 * time.Second}, {0, 90 * time.Second}, {50_000, 20 * time.Second}}},
			"1m30s: low(60) zero(5) without(90), 20s: mid(20), 10s: node(10) high(10)"},
		{Config{ByPodPriority: []Period{{5_000_000, 3 * time.Second}, {2_100_000_000, time.Second}}}, "3s: node(3) low(3) zero(3) mid(3) high(3) without(3)"},
	} {
		periods, err := test.config.Periods()
		if err != nil {
			t.Fatal(err)
		}
		if got := text(Plan(periods, pods)); got != test.want {
			t.Errorf("%+v: %s\nwant %s", test.config, got, test.want)
		}
	}
}

func TestPeriodsAreChecked(t *testing.T) {
	for _, c := range []Config{
		{GracePeriod: -1}, {GracePeriod: time.Second, CriticalPods: 2 * time.Second}, {CriticalPods: time.Second},
		{GracePeriod: time.Second, ByPodPriority: []Period{{0, time.Second}}},
		{ByPodPriority: []Period{{0, time.Second}, {0, time.Minute}}}, {ByPodPriority: []Period{{0, -1}}},
	} {
		if periods, err := c.Periods(); err == nil {
			t.Errorf("Periods of %+v = %v, want an error", c, periods)
		}
	}
}

func ExamplePlan() {
	periods, err := Config{GracePeriod: 30 * time.Second, CriticalPods: 10 * time.Second}.Periods()
	if err != nil {
		panic(err)
	}
	for _, group := range Plan(periods, []*corev1.Pod{pod("dns", 2_000_000_000, 30), pod("web", 0, 30)}) {
		for _, p := range group.Pods {
			fmt.Printf("%s ends within %d s\n", p.Name, p.Grace)
		}
		fmt.Println("wait for at most", group.Wait)
	}
	// Output:
	// web ends within 20 s
	// wait for at most 20s
	// dns ends within 10 s
	// wait for at most 10s
}

func TestWhole(t *testing.T) {
	for want, c := range map[time.Duration]Config{
		0:                {},
		30 * time.Second: {GracePeriod: 30 * time.Second, CriticalPods: 10 * time.Second},
		17 * time.Second: {ByPodPriority: []Period{{0, 7 * time.Second}, {1000, 10 * time.Second}}},
	} {
		if got := c.Whole(); got != want {
			t.Errorf("%+v: %v, want %v", c, got, want)
		}
	}
}
