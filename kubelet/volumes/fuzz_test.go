package volumes

import (
	"strings"
	"testing"
)

func FuzzParseMounts(f *testing.F) {
	f.Add("1 2 0:1 / /var/pods/x\\040y rw - tmpfs tmpfs rw\n", "/var/pods")
	f.Fuzz(func(t *testing.T, table, directory string) {
		for _, point := range pointsBelow(parseMounts(table), directory) {
			if !strings.HasPrefix(point, directory+"/") {
				t.Errorf("%q is not below %q", point, directory)
			}
		}
	})
}
