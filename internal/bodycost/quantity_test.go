package bodycost_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/internal/bodycost"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
)

// TestQuantities checks which quantities are refused before they are decoded, in JSON and in protobuf. Other
// texts that look like them are none.
func TestQuantities(t *testing.T) {
	of := reflect.TypeFor[corev1.Pod]()
	for text, refused := range map[string]bool{
		`"1"`: false, `1`: false, `"100m"`: false, `"1Ei"`: false, `"1e3"`: false, `"1E"`: false, `1e+12`: false, `"1e0000012"`: false, `null`: false,
		`"1e999"`: false, `"1e9999"`: true, `"1e-9999999"`: true, `"-1E+9999999"`: true, `1e9999999`: true, `"1e99999\u0039"`: true,
		`"` + strings.Repeat("1", 300) + `"`: true, `"e"`: false,
	} {
		types := &bodycost.Types{}
		body := fmt.Sprintf(`{"metadata": {"labels": {"commit": "7e20391"}}, "spec": {"containers": [{"resources": {"requests": {"cpu": %s}}}]}}`, text)
		_, err := types.JSON(t.Context(), []byte(body), of, limits)
		if errors.Is(err, bodycost.ErrQuantity) != refused || !refused && err != nil {
			t.Errorf("JSON of a pod that requests the cpu %s = %v, want ErrQuantity %t and no other error", text, err, refused)
		}
		var plain string
		if json.Unmarshal([]byte(text), &plain) != nil || plain == "" {
			continue
		}
		_, err = types.Protobuf(t.Context(), podRequesting(plain), of, limits)
		if errors.Is(err, bodycost.ErrQuantity) != refused || !refused && err != nil {
			t.Errorf("%s in protobuf: %v", text, err)
		}
	}
	types := &bodycost.Types{}
	broken := message(2, message(2, message(8, message(2, append(message(1, []byte("cpu")), message(2, []byte{0xff})...)))))
	if _, err := types.Protobuf(t.Context(), broken, of, limits); !errors.Is(err, bodycost.ErrMalformed) {
		t.Errorf("a broken quantity: %v", err)
	}
}

// podRequesting returns the message of a pod that requests a quantity of cpu.
func podRequesting(quantity string) []byte {
	entry := append(message(1, []byte("cpu")), message(2, message(1, []byte(quantity)))...)
	resources := message(2, entry)
	container := message(8, resources)
	return message(2, message(2, container))
}

// message returns a field with a message.
func message(number protowire.Number, inner []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), inner)
}
