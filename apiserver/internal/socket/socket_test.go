package socket

import "testing"

// TestChoose: a known subprotocol is chosen before others, a single unknown one is repeated, and a token never.
func TestChoose(t *testing.T) {
	const token = tokenPrefix + "YWJj"
	for _, test := range []struct {
		offered []string
		want    string
	}{
		{nil, ""},
		{[]string{"binary.k8s.io"}, "binary.k8s.io"},
		{[]string{"other", "base64.binary.k8s.io"}, "base64.binary.k8s.io"},
		{[]string{"other"}, "other"},
		{[]string{"other", "another"}, ""},
		{[]string{token}, ""},
		{[]string{token, "base64.binary.k8s.io"}, "base64.binary.k8s.io"},
	} {
		if got := choose(test.offered); got != test.want {
			t.Errorf("choose(%q) = %q, want %q", test.offered, got, test.want)
		}
	}
}
