package verbs

import (
	"strings"
	"sync"

	"github.com/ration-go/ration"
)

// texts remembers limits by their text: reading one anew can mean loading a time zone.
type texts struct {
	mu     sync.RWMutex
	limits map[string]ration.Limit
}

// maxTexts and maxText bound what is remembered. Callers use few texts, unless they make one up for each call.
const (
	maxTexts = 1024
	maxText  = 256
)

func (t *texts) parse(text string) (ration.Limit, error) {
	t.mu.RLock()
	limit, ok := t.limits[text]
	t.mu.RUnlock()
	if ok {
		return limit, nil
	}
	limit, err := ration.ParseLimit(text)
	if err != nil || len(text) > maxText {
		return limit, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limits == nil || len(t.limits) >= maxTexts {
		t.limits = map[string]ration.Limit{}
	}
	t.limits[strings.Clone(text)] = limit
	return limit, nil
}
