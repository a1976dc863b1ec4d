package scenario

import "testing"

const printed = `NAME                     READY   STATUS              RESTARTS      AGE
nginx-7d9f8b6c5d-abcde   1/1     Running             0             3s
nginx-7d9f8b6c5d-fghij   0/1     ContainerCreating   2 (3s ago)    3s
`

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		name, want string
		ok         bool
	}{
		{"any order, fewer columns", "NAME  STATUS\nnginx-*  ContainerCreating\nnginx-*  Running\n", true},
		{"cell with single spaces", "NAME  RESTARTS\nnginx-*  0\nnginx-*  2 (*s ago)\n", true},
		{"too few rows", "NAME\nnginx-*\n", false},
		{"one row cannot serve twice", "NAME  STATUS\nnginx-*  Running\nnginx-*  Running\n", false},
		{"unknown column", "NAME  COLOUR\nnginx-*  red\nnginx-*  red\n", false},
		{"nothing expected", "", false},
	} {
		err := compare(parseTable(test.want), parseTable(printed))
		if (err == nil) != test.ok {
			t.Errorf("compare with the table of %s, %q = %v, want a match %t", test.name, test.want, err, test.ok)
		}
	}
	if err := compare(parseTable(""), parseTable("")); err != nil {
		t.Errorf("nothing is nothing: %v", err)
	}
}
