package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestToleration(t *testing.T) {
	taint := func(key string) corev1.Taint {
		return corev1.Taint{Key: key, Value: "v", Effect: corev1.TaintEffectNoExecute}
	}
	exists := func(key string, seconds *int64) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, TolerationSeconds: seconds}
	}
	for name, test := range map[string]struct {
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		allowed     time.Duration
		limited     bool
	}{
		"no taint":                {nil, nil, 0, false},
		"not tolerated":           {[]corev1.Taint{taint("a")}, nil, 0, true},
		"for ever":                {[]corev1.Taint{taint("a")}, []corev1.Toleration{exists("a", nil)}, 0, false},
		"for a while":             {[]corev1.Taint{taint("a")}, []corev1.Toleration{exists("a", new(int64(5)))}, 5 * time.Second, true},
		"not at all":              {[]corev1.Taint{taint("a")}, []corev1.Toleration{exists("a", new(int64(-1)))}, 0, true},
		"the shortest":            {[]corev1.Taint{taint("a"), taint("b")}, []corev1.Toleration{exists("a", new(int64(9))), exists("b", new(int64(5)))}, 5 * time.Second, true},
		"one not":                 {[]corev1.Taint{taint("a"), taint("b")}, []corev1.Toleration{exists("a", nil)}, 0, true},
		"the first that matches":  {[]corev1.Taint{taint("a")}, []corev1.Toleration{exists("", nil), exists("a", new(int64(5)))}, 0, false},
		"equal":                   {[]corev1.Taint{taint("a")}, []corev1.Toleration{{Key: "a", Value: "v"}}, 0, false},
		"another value":           {[]corev1.Taint{taint("a")}, []corev1.Toleration{{Key: "a", Value: "w"}}, 0, true},
		"another effect":          {[]corev1.Taint{taint("a")}, []corev1.Toleration{{Key: "a", Value: "v", Effect: corev1.TaintEffectNoSchedule}}, 0, true},
		"an operator not allowed": {[]corev1.Taint{taint("a")}, []corev1.Toleration{{Key: "a", Value: "1", Operator: "Lt"}}, 0, true},
		"longer than time":        {[]corev1.Taint{taint("a")}, []corev1.Toleration{exists("a", new(int64(1<<62)))}, 9223372036 * time.Second, true},
	} {
		if allowed, limited := toleration(test.taints, test.tolerations); allowed != test.allowed || limited != test.limited {
			t.Errorf("%s: toleration() = %s, %t, want %s, %t", name, allowed, limited, test.allowed, test.limited)
		}
	}
}
