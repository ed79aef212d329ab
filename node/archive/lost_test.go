package archive

import (
	"strings"
	"testing"
)

// Lines are lost while the archive cannot be written. If writing works again only at Close, Close
// reports the loss.
func TestCloseReportsEarlierLosses(t *testing.T) {
	w := open(t, Config{Dir: t.TempDir()})
	w.stopped, w.lost = true, 7
	w.pending = append(w.pending, "{}\n"...)
	if err := w.Close(noon); err == nil || !strings.Contains(err.Error(), "7 lines lost") {
		t.Errorf("Close: %v, want 7 lines lost", err)
	}
}
